//! Files made of records: text as the reference's viewer writes it, and `.npy`.

use super::bin::BLOCK_BYTES;
use super::list::Shape;
use super::record::{Kind, Payload, Record};
use super::text::{Texts, integer};
use super::{Dump, DumpError, each, npy};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Text that is gathered before it is written.
const WRITE_BYTES: usize = 256 * 1024;

/// What an export made.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Exported {
    /// The files, in the order of the records.
    pub files: Vec<PathBuf>,
    /// Records of which there are no values.
    pub without_values: usize,
    /// Records of which only the beginning was there.
    pub cut_short: usize,
}

/// Writes the records at `selected` as text into `dir`: `task_<id>_<before|after>_<in|out|inout><index>.txt`, and
/// `….1.txt` for the second record of that name (another block of the task).
pub fn export_txt(dump: &Dump, selected: &[usize], dir: &Path) -> Result<Exported, DumpError> {
    export(dump, selected, dir, "txt", |record, file| write_txt(dump, record, file))
}

/// Writes the records at `selected` as `.npy` into `dir`, under the same names.
///
/// bfloat16, fp8 and fp4, which numpy does not know, become float32, or with `raw` the unsigned integers that their bits
/// are; fp4 then stays packed. Of a payload cut short there is the flat beginning.
pub fn export_npy(dump: &Dump, selected: &[usize], dir: &Path, raw: bool) -> Result<Exported, DumpError> {
    export(dump, selected, dir, "npy", |record, file| npy::write(dump, record, raw, file))
}

fn export(
    dump: &Dump,
    selected: &[usize],
    dir: &Path,
    extension: &str,
    write: impl Fn(&Record, &mut File) -> Result<(), Failed> + Sync,
) -> Result<Exported, DumpError> {
    fs::create_dir_all(dir).map_err(|source| DumpError::io(dir, source))?;
    let occurrences = dump.manifest.occurrences();
    let (with, without): (Vec<usize>, Vec<usize>) =
        selected.iter().partition(|&&index| dump.record(index).has_values());
    let files = each::map(&with, |index| {
        let record = dump.record(index);
        let again = match occurrences[index] {
            0 => String::new(),
            n => format!(".{n}"),
        };
        let path = dir.join(format!("{}{again}.{extension}", record.file_stem()));
        whole_file(&path, |file| write(record, file))?;
        Ok(path)
    })?;
    let cut_short = with.iter().filter(|&&i| dump.record(i).payload() == Payload::Truncated).count();
    Ok(Exported { files, without_values: without.len(), cut_short })
}

/// Why a file could not be made.
pub(super) enum Failed {
    /// The dump could not be read.
    Read(DumpError),
    /// The file could not be written.
    Write(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Write(error)
    }
}

impl From<DumpError> for Failed {
    fn from(error: DumpError) -> Self {
        Failed::Read(error)
    }
}

/// A file that is complete under its name, or absent.
fn whole_file(path: &Path, write: impl FnOnce(&mut File) -> Result<(), Failed>) -> Result<(), DumpError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let unfinished = PathBuf::from(name);
    let written = File::create(&unfinished).map_err(Failed::from).and_then(|mut file| write(&mut file));
    let written = written.and_then(|()| Ok(fs::rename(&unfinished, path)?));
    written.map_err(|failed| {
        // What failed is said; that its rest stays would be said by the next listing.
        let _ = fs::remove_file(&unfinished);
        match failed {
            Failed::Read(error) => error,
            Failed::Write(source) => DumpError::io(path, source),
        }
    })
}

/// Text on its way to a file.
struct Out<'a> {
    file: &'a mut File,
    text: Vec<u8>,
}

impl Out<'_> {
    /// Writes if it is worth it.
    fn settle(&mut self) -> io::Result<()> {
        if self.text.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.text)?;
        self.text.clear();
        Ok(())
    }
}

/// The values of a record as text, block by block, as often as they are needed.
struct Values<'a> {
    dump: &'a Dump,
    record: &'a Record,
    block: Texts,
    /// Whether the block is the whole record, so that it need not be made again.
    held: bool,
}

impl Values<'_> {
    fn each_block(&mut self, mut each: impl FnMut(&Texts) -> Result<(), Failed>) -> Result<(), Failed> {
        if self.held {
            return each(&self.block);
        }
        let mut failed = None;
        let block = &mut self.block;
        let read = self.dump.bin.blocks(self.record, |_, bytes| {
            block.clear();
            block.push(self.record.dtype, bytes);
            if failed.is_none() {
                failed = each(block).err();
            }
            Ok(())
        });
        self.held = self.record.bin_size <= BLOCK_BYTES as u64;
        read?;
        failed.map_or(Ok(()), Err)
    }
}

fn write_txt(dump: &Dump, record: &Record, file: &mut File) -> Result<(), Failed> {
    let mut out = Out { file, text: Vec::with_capacity(WRITE_BYTES + WRITE_BYTES / 4) };
    head(record, &mut out.text)?;
    if record.kind != Kind::Scalar {
        let mut values = Values { dump, record, block: Texts::default(), held: false };
        let shape = record.value_shape();
        out.text.extend_from_slice(b"\n# Overview:\n");
        overview(&mut values, &shape, &mut out)?;
        out.text.extend_from_slice(b"\n# Detail:\n");
        detail(&mut values, &shape, &mut out)?;
    }
    Ok(out.flush()?)
}

fn head(record: &Record, out: &mut Vec<u8>) -> io::Result<()> {
    let kind = match record.kind {
        Kind::Tensor => "tensor",
        Kind::Scalar => "scalar",
        Kind::Unknown => "unknown",
    };
    let contiguous = if record.is_contiguous { "True" } else { "False" };
    writeln!(out, "# task_id: {:#018x}", record.task_id)?;
    writeln!(out, "# role: {}", record.role.name())?;
    writeln!(out, "# stage: {}", record.stage.name())?;
    writeln!(out, "# arg_index: {}", record.arg_index)?;
    writeln!(out, "# dtype: {}", record.dtype.name())?;
    writeln!(out, "# kind: {kind}")?;
    writeln!(out, "# is_contiguous: {contiguous}")?;
    writeln!(out, "# shape: {}", Shape(record.shape()))?;
    writeln!(out, "# strides: {}", Shape(record.strides()))?;
    writeln!(out, "# start_offset: {}", record.start_offset)?;
    if let Some(value) = record.value {
        writeln!(out, "# value: {value}")?;
    }
    if record.payload() == Payload::Truncated {
        writeln!(out, "# truncated: the first {} values", record.stored_values())?;
    }
    Ok(())
}

/// A line for each run of the last dimension, right-aligned to the widest value.
fn overview(values: &mut Values<'_>, shape: &[u64], out: &mut Out<'_>) -> Result<(), Failed> {
    let mut width = 0;
    values.each_block(|block| {
        width = width.max(block.widest());
        Ok(())
    })?;
    let row = shape.last().copied().unwrap_or(1);
    let mut column = 0;
    values.each_block(|block| {
        for value in block.iter() {
            if column > 0 {
                out.text.push(b' ');
            }
            out.text.resize(out.text.len() + width - value.len(), b' ');
            out.text.extend_from_slice(value);
            column += 1;
            if column == row {
                out.text.push(b'\n');
                column = 0;
            }
            out.settle()?;
        }
        Ok(())
    })?;
    if column > 0 {
        out.text.push(b'\n');
    }
    Ok(())
}

/// A line for each value, with its index.
fn detail(values: &mut Values<'_>, shape: &[u64], out: &mut Out<'_>) -> Result<(), Failed> {
    let outer = shape.len().saturating_sub(1);
    let row = shape.last().copied();
    let mut index = vec![0u64; outer];
    let mut prefix = b"[".to_vec();
    let mut column = 0;
    let lead = |prefix: &mut Vec<u8>, index: &[u64]| {
        prefix.truncate(1);
        for &at in index {
            integer(prefix, at);
            prefix.extend_from_slice(b", ");
        }
    };
    lead(&mut prefix, &index);
    values.each_block(|block| {
        for value in block.iter() {
            out.text.extend_from_slice(&prefix);
            if row.is_some() {
                integer(&mut out.text, column);
            }
            out.text.extend_from_slice(b"] ");
            out.text.extend_from_slice(value);
            out.text.push(b'\n');
            out.settle()?;
            column += 1;
            if Some(column) == row {
                column = 0;
                for dim in (0..outer).rev() {
                    index[dim] += 1;
                    if index[dim] < shape[dim] {
                        break;
                    }
                    index[dim] = 0;
                }
                lead(&mut prefix, &index);
            }
        }
        Ok(())
    })
}

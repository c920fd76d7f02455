//! `deps.json`: parses, names nothing that it does not have, and its edges go forward.

use super::others::{Reader, json};
use super::{Check, Severity};
use serde::Deserialize;
use std::collections::HashMap;

const NAME: &str = "deps.json";

#[derive(Deserialize)]
struct Deps {
    tasks: Vec<Task>,
    tensors: Vec<Tensor>,
    edges: Vec<Edge>,
}

/// What is optional here is so for graphs that were written by hand.
#[derive(Deserialize)]
struct Task {
    task_id: Id,
    scope: Option<Scope>,
    #[serde(rename = "early_dispatch")]
    _early_dispatch: Option<bool>,
    kernel_ids: Option<[i32; 3]>,
    block_num: Option<u32>,
    args: Option<Vec<Arg>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Auto,
    Manual,
}

#[derive(Deserialize)]
struct Arg {
    idx: u32,
    #[serde(rename = "type")]
    arg_type: ArgType,
    tensor_id: Option<Id>,
    shape: Option<Vec<u32>>,
    strides: Option<Vec<u32>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ArgType {
    Input,
    Output,
    Inout,
    OutputExisting,
    Unknown,
}

#[derive(Deserialize)]
struct Tensor {
    tensor_id: Id,
    buffer_addr: Id,
    version: i32,
}

#[derive(Deserialize)]
struct Edge {
    pred: Id,
    succ: Id,
    arg: Option<i64>,
    source: Option<Source>,
    overlap: Option<Overlap>,
    tensor_id: Option<Id>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    Explicit,
    Creator,
    Tensormap,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Overlap {
    Covered,
    Other,
}

/// A 64-bit number as a decimal string.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
struct Id(u64);

impl TryFrom<String> for Id {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Id).map_err(|_| format!("{text:?} is no id, expected 64 bits in decimal"))
    }
}

/// The tasks of the file.
pub(super) struct DepsTasks {
    /// Their ids, sorted.
    ids: Vec<u64>,
    /// Numbers within their rings of those that have no kernel of their own, sorted: these may be graph tasks.
    without_kernel: Vec<u64>,
}

/// Bits of a node's number in its task id.
const NODE_BITS: u32 = 10;

impl DepsTasks {
    fn of(tasks: &[Task]) -> DepsTasks {
        let mut ids: Vec<u64> = tasks.iter().map(|task| task.task_id.0).collect();
        let kernel = |task: &&Task| task.kernel_ids.is_none_or(|ids| ids.iter().any(|id| *id >= 0));
        let mut without_kernel: Vec<u64> =
            tasks.iter().filter(|task| !kernel(task)).map(|task| u64::from(task.task_id.0 as u32)).collect();
        ids.sort_unstable();
        without_kernel.sort_unstable();
        DepsTasks { ids, without_kernel }
    }

    /// Whether `task` is there, or may be a node of a graph task that is: ring 1, numbered within it.
    pub(super) fn has(&self, task: u64) -> bool {
        let outer = u64::from(task as u32) >> NODE_BITS;
        self.ids.binary_search(&task).is_ok()
            || task >> 32 == 1 && self.without_kernel.binary_search(&outer).is_ok()
    }
}

/// FNV-1a 64 over the address and the version.
fn tensor_id(tensor: &Tensor) -> u64 {
    let bytes = tensor.buffer_addr.0.to_le_bytes().into_iter().chain(tensor.version.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl Check<'_> {
    pub(super) fn deps(&mut self, reader: &mut Reader) -> Result<(), String> {
        let deps: Deps = json(reader)?;
        self.counts.insert("deps_tasks", deps.tasks.len() as u64);
        self.counts.insert("deps_edges", deps.edges.len() as u64);
        let tasks = DepsTasks::of(&deps.tasks);
        let twice = tasks.ids.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        self.found(twice, "duplicate-task", "has", "tasks twice");
        self.deps_tasks = Some(tasks);
        self.tensors(&deps);
        self.edges(&deps);
        Ok(())
    }

    fn found(&mut self, count: u64, code: &'static str, before: &str, after: &str) {
        self.add_if(count, Severity::Error, code, NAME, format!("{before} {count} {after}"));
    }

    fn tensors(&mut self, deps: &Deps) {
        let ids: HashMap<Id, usize> =
            deps.tensors.iter().zip(0..).map(|(tensor, i)| (tensor.tensor_id, i)).collect();
        self.found((deps.tensors.len() - ids.len()) as u64, "duplicate-tensor", "has", "tensors twice");
        let wrong =
            deps.tensors.iter().filter(|tensor| tensor.tensor_id.0 != tensor_id(tensor)).count() as u64;
        self.found(wrong, "tensor-id", "has", "tensors whose id is not that of their address and version");
        let args = || deps.tasks.iter().flat_map(|task| task.args.iter().flatten().zip(0u32..));
        let out_of_place = args().filter(|(arg, i)| arg.idx != *i).count() as u64;
        self.found(out_of_place, "argument", "has", "arguments whose idx is not their place");
        let bare = args().filter(|(arg, _)| (arg.arg_type == ArgType::Output) != arg.tensor_id.is_none());
        self.found(bare.count() as u64, "argument", "has", "arguments with a tensor too many or too few");
        let rank = |list: &Option<Vec<u32>>| list.as_ref().map(Vec::len);
        let uneven = args().filter(|(arg, _)| rank(&arg.shape) != rank(&arg.strides)).count() as u64;
        self.found(uneven, "argument", "has", "arguments with more extents than strides, or fewer");
        let named = args().filter_map(|(arg, _)| arg.tensor_id);
        let named = named.chain(deps.edges.iter().filter_map(|edge| edge.tensor_id));
        let unknown = named.filter(|id| !ids.contains_key(id)).count() as u64;
        self.found(unknown, "unknown-tensor", "names", "tensors that it does not have");
        let blockless = deps.tasks.iter().filter(|task| task.block_num == Some(0)).count() as u64;
        self.found(blockless, "block-num", "has", "tasks without a block");
    }

    fn edges(&mut self, deps: &Deps) {
        let place: HashMap<Id, usize> =
            deps.tasks.iter().zip(0..).map(|(task, i)| (task.task_id, i)).collect();
        let (mut lost, mut backwards, mut arguments, mut sources) = (0, 0, 0, 0);
        // By task: the last task (plus one) that has it as an explicit or creator predecessor.
        let mut named: HashMap<Id, usize> = HashMap::new();
        let (mut twice, mut derived) = (0, 0);
        for edge in &deps.edges {
            let Some(&succ) = place.get(&edge.succ) else {
                lost += 1;
                continue;
            };
            // A predecessor that is no task is an alloc.
            backwards +=
                u64::from(edge.pred == edge.succ || place.get(&edge.pred).is_some_and(|pred| *pred >= succ));
            let args = deps.tasks[succ].args.as_ref().map(|args| args.len() as i64);
            let Some(source) = edge.source else { continue };
            let fits = match (edge.arg, args) {
                (Some(arg), _) if source == Source::Explicit => arg == -1,
                (Some(arg), Some(args)) => (0..args).contains(&arg),
                _ => true,
            };
            arguments += u64::from(!fits);
            let tensor = edge.tensor_id.is_some() == (source != Source::Explicit);
            sources += u64::from(!tensor || edge.overlap.is_some() != (source == Source::Tensormap));
            if source != Source::Tensormap {
                twice += u64::from(named.insert(edge.pred, succ + 1) == Some(succ + 1));
            }
            let manual = matches!(deps.tasks[succ].scope, Some(Scope::Manual));
            derived += u64::from(manual && source != Source::Explicit);
        }
        self.found(lost, "unknown-successor", "has", "edges to tasks that it does not have");
        self.found(backwards, "edge-order", "has", "edges to a task from itself or a later one");
        self.found(arguments, "edge-argument", "has", "edges by an argument that their task does not have");
        self.found(sources, "edge-source", "has", "edges whose keys are not those of their source");
        self.found(twice, "duplicate-edge", "has", "explicit or creator edges twice");
        self.found(derived, "edge-scope", "has", "derived edges to tasks of a manual scope");
    }
}

//! `ffi/include/dfx_aicore.h` as the compilers on this machine make it: `tests/ffi/aicore_glue.{c,cpp}` as a shared object
//! without a C library, loaded into the test.

use dfx_collector::pmu::RegisterFile;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// A language that the header is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// C11.
    C,
    /// C++17.
    Cxx,
}

impl Language {
    /// Both.
    pub const ALL: [Language; 2] = [Language::C, Language::Cxx];

    /// The compiler that the environment names, or the machine's own.
    pub fn compiler(self) -> String {
        let (variable, usual) = match self {
            Language::C => ("CC", "cc"),
            Language::Cxx => ("CXX", "c++"),
        };
        std::env::var(variable).unwrap_or_else(|_| usual.into())
    }

    /// All compilers for it on this machine: [`compiler`](Self::compiler) and clang. A missing one is said on stderr; on CI
    /// a missing first one is a failure.
    pub fn compilers(self) -> Vec<String> {
        let clang = match self {
            Language::C => "clang",
            Language::Cxx => "clang++",
        };
        let own = self.compiler();
        let there = |name: &String| {
            let there = Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
            let needed = *name == own && std::env::var("CI").as_deref() == Ok("true");
            assert!(there || !needed, "no {self:?} compiler: {name}");
            if !there {
                eprintln!("SKIPPED: no {self:?} compiler {name}");
            }
            there
        };
        [own.clone(), clang.to_owned()].into_iter().filter(there).collect()
    }

    /// What makes a compiler strict about the standard and about everything else.
    pub fn strict(self) -> &'static [&'static str] {
        match self {
            Language::C => &["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"],
            Language::Cxx => {
                &["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fno-exceptions", "-fno-rtti"]
            }
        }
    }

    /// The glue's source.
    pub fn source(self) -> PathBuf {
        ffi(match self {
            Language::C => "aicore_glue.c",
            Language::Cxx => "aicore_glue.cpp",
        })
    }
}

fn ffi(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ffi").join(name)
}

/// Where the public headers are.
pub fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi/include")
}

/// Runs a compiler on `source`; the include path and the strict flags come first.
///
/// # Panics
/// If the compiler cannot be run.
pub fn compile(compiler: &str, language: Language, source: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(compiler);
    command.arg("-I").arg(include_dir()).args(language.strict()).args(args).arg(source);
    command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"))
}

/// How the glue is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    /// The defaults: the compiler's atomics, mapped registers.
    Atomics,
    /// Volatile words.
    Volatile,
    /// The defaults, and undefined behaviour is a trap.
    Sanitized,
    /// Registers and cache maintenance are the test's.
    Hooks,
}

impl Flavor {
    /// Those that stand on their own.
    pub const PLAIN: [Flavor; 3] = [Flavor::Atomics, Flavor::Volatile, Flavor::Sanitized];

    fn flags(self) -> &'static [&'static str] {
        match self {
            Flavor::Atomics => &["-O2"],
            Flavor::Volatile => &["-O2", "-DDFX_AICORE_ATOMICS=0"],
            Flavor::Sanitized => &["-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"],
            Flavor::Hooks => &["-O2", "-DGLUE_HOOKS", "-DDFX_AICORE_ATOMICS=1"],
        }
    }
}

/// `DFX_PLATFORM_*` for the header: `A2A3`, `A5`, or nothing.
pub type PlatformMacro = Option<&'static str>;

/// A fact of the header: a field's offset and size, a struct's alignment and size (`field` is empty), or a number (`=`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fact {
    /// The pinned name of the struct or number.
    pub of: String,
    /// The field.
    pub field: String,
    /// Offset, alignment, or the number.
    pub at: u64,
    /// In bytes.
    pub bytes: u64,
}

#[repr(C)]
struct RawFact {
    of: *const c_char,
    field: *const c_char,
    at: u64,
    bytes: u64,
}

/// What a core did to its cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    /// Dropped the line at this address.
    In(u64),
    /// Wrote the line at this address back.
    Out(u64),
    /// Waited for what it had written.
    Barrier,
}

thread_local! {
    static CACHE: RefCell<Option<Vec<Cache>>> = const { RefCell::new(None) };
}

/// What cores of [`Flavor::Hooks`] do to their caches on this thread while `work` runs.
pub fn cache_events(work: impl FnOnce()) -> Vec<Cache> {
    CACHE.with_borrow_mut(|events| *events = Some(Vec::new()));
    work();
    CACHE.with_borrow_mut(Option::take).expect("set above")
}

extern "C" fn on_cache(what: u32, at: u64) {
    CACHE.with_borrow_mut(|events| {
        if let Some(events) = events {
            events.push(match what {
                1 => Cache::In(at),
                2 => Cache::Out(at),
                _ => Cache::Barrier,
            });
        }
    });
}

/// A register file as the glue holds it: the address of this box is its base.
type Bank = Box<dyn RegisterFile + Send>;

/// What the hooked counter reads: base 0 is no register file.
pub const NOW: u32 = 0x5EED;

extern "C" fn on_read(base: u64, offset: u32) -> u32 {
    let bank: *const Bank = std::ptr::with_exposed_provenance(base as usize);
    // SAFETY: a base is 0 or the address of a `Bank` that its `CorePmu` keeps.
    unsafe { bank.as_ref() }.map_or(NOW, |bank| bank.read(offset))
}

extern "C" fn on_write(base: u64, offset: u32, value: u32) {
    let bank: *const Bank = std::ptr::with_exposed_provenance(base as usize);
    // SAFETY: as in `on_read`.
    if let Some(bank) = unsafe { bank.as_ref() } {
        bank.write(offset, value);
    }
}

#[repr(C)]
struct Hooks {
    read: extern "C" fn(u64, u32) -> u32,
    write: extern "C" fn(u64, u32, u32),
    cache: extern "C" fn(u32, u64),
}

/// A core's state in C, room enough for either of the two.
type State = [u64; 8];

/// The glue, loaded.
pub struct Glue {
    /// How it was made.
    pub language: Language,
    /// How it was made.
    pub flavor: Flavor,
    facts: unsafe extern "C" fn(*mut u64) -> *const RawFact,
    entry: unsafe extern "C" fn(u64, u32, u32, u32) -> u64,
    open: unsafe extern "C" fn(*mut State, u64),
    resolve: unsafe extern "C" fn(*mut State) -> c_int,
    reserve: unsafe extern "C" fn(*mut State) -> u64,
    commit: unsafe extern "C" fn(u64, u64, u64, u64, u32, u64),
    pmu_open: unsafe extern "C" fn(*mut State, u64, u64),
    pmu_begin: unsafe extern "C" fn(*const State),
    pmu_end: unsafe extern "C" fn(*const State),
    pmu_record: unsafe extern "C" fn(*const State, u32),
    now: Option<unsafe extern "C" fn() -> u64>,
}

impl fmt::Debug for Glue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.language, self.flavor)
    }
}

type Made = (Language, Flavor, PlatformMacro, Option<&'static Glue>);

impl Glue {
    /// The glue of every language that has a compiler here.
    pub fn all(flavor: Flavor, platform: PlatformMacro) -> Vec<&'static Glue> {
        Language::ALL.into_iter().filter_map(|language| Glue::get(language, flavor, platform)).collect()
    }

    /// The glue in `language`; `None` where that has no compiler. Made once per process.
    ///
    /// # Panics
    /// If it does not compile without a warning, or needs anything from outside.
    pub fn get(language: Language, flavor: Flavor, platform: PlatformMacro) -> Option<&'static Glue> {
        static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) =
            made.iter().find(|known| (known.0, known.1, known.2) == (language, flavor, platform))
        {
            return known.3;
        }
        let there = language.compilers().first() == Some(&language.compiler());
        let glue = there.then(|| &*Box::leak(Box::new(Glue::make(language, flavor, platform))));
        made.push((language, flavor, platform, glue));
        glue
    }

    fn make(language: Language, flavor: Flavor, platform: PlatformMacro) -> Glue {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let object = dir.path().join("aicore_glue.so");
        let (platform, out) =
            (platform.map(|name| format!("-DDFX_PLATFORM_{name}")), object.to_string_lossy());
        let mut args = vec!["-fPIC", "-shared", "-ffreestanding", "-nostdlib", "-Wl,-z,defs", "-o", &out];
        args.extend(flavor.flags());
        args.extend(platform.as_deref());
        let output = compile(&language.compiler(), language, &language.source(), &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{language:?} {flavor:?} {platform:?}:\n{said}");
        Glue::load(language, flavor, &object)
    }

    fn load(language: Language, flavor: Flavor, object: &Path) -> Glue {
        let path = CString::new(object.as_os_str().as_encoded_bytes()).expect("no NUL in a path");
        // SAFETY: our own object, which runs nothing when it is loaded; it stays for the life of the process.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{} cannot be loaded", object.display());
        let find = |name: &CStr| {
            // SAFETY: a library that stays loaded, and a terminated name.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!symbol.is_null(), "{name:?} is not in {}", object.display());
            symbol
        };
        // SAFETY: each symbol is a function of `aicore_glue.c`, whose pointers are 64 bits wide, with this signature.
        unsafe {
            use std::mem::transmute;
            type Symbol = *mut c_void;
            let bytes = transmute::<Symbol, extern "C" fn() -> u64>(find(c"glue_bytes"))();
            assert!(bytes as usize <= size_of::<State>(), "a state of {bytes} bytes");
            let now = (flavor == Flavor::Hooks).then(|| {
                let set = transmute::<Symbol, extern "C" fn(&Hooks)>(find(c"glue_set_hooks"));
                set(&Hooks { read: on_read, write: on_write, cache: on_cache });
                transmute::<Symbol, unsafe extern "C" fn() -> u64>(find(c"glue_now"))
            });
            Glue {
                language,
                flavor,
                facts: transmute::<Symbol, unsafe extern "C" fn(*mut u64) -> *const RawFact>(find(
                    c"glue_facts",
                )),
                entry: transmute::<Symbol, unsafe extern "C" fn(u64, u32, u32, u32) -> u64>(find(
                    c"glue_entry",
                )),
                open: transmute::<Symbol, unsafe extern "C" fn(*mut State, u64)>(find(c"glue_open")),
                resolve: transmute::<Symbol, unsafe extern "C" fn(*mut State) -> c_int>(find(
                    c"glue_resolve",
                )),
                reserve: transmute::<Symbol, unsafe extern "C" fn(*mut State) -> u64>(find(c"glue_reserve")),
                commit: transmute::<Symbol, unsafe extern "C" fn(u64, u64, u64, u64, u32, u64)>(find(
                    c"glue_commit",
                )),
                pmu_open: transmute::<Symbol, unsafe extern "C" fn(*mut State, u64, u64)>(find(
                    c"glue_pmu_open",
                )),
                pmu_begin: transmute::<Symbol, unsafe extern "C" fn(*const State)>(find(c"glue_pmu_begin")),
                pmu_end: transmute::<Symbol, unsafe extern "C" fn(*const State)>(find(c"glue_pmu_end")),
                pmu_record: transmute::<Symbol, unsafe extern "C" fn(*const State, u32)>(find(
                    c"glue_pmu_record",
                )),
                now,
            }
        }
    }

    /// What the header says of its layout.
    pub fn facts(&self) -> Vec<Fact> {
        let mut count = 0;
        // SAFETY: the glue returns a static array of `count` facts, whose strings are static.
        unsafe {
            let first = (self.facts)(&mut count);
            let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
            let fact = |raw: &RawFact| Fact {
                of: text(raw.of),
                field: text(raw.field),
                at: raw.at,
                bytes: raw.bytes,
            };
            std::slice::from_raw_parts(first, count as usize).iter().map(fact).collect()
        }
    }

    /// `dfx_aicore_entry`.
    pub fn entry(&self, table: u64, core: u32, flags: u32, bit: u32) -> u64 {
        // SAFETY: it only computes.
        unsafe { (self.entry)(table, core, flags, bit) }
    }

    /// `dfx_aicore_now`, of [`Flavor::Hooks`].
    pub fn now(&self) -> Option<u64> {
        // SAFETY: it calls the hook.
        self.now.map(|now| unsafe { now() })
    }

    /// Commits into `slot`.
    ///
    /// # Safety
    /// As `dfx_aicore_commit`: `slot` is 0 or comes from a recorder of a region that lives, and is committed once.
    pub unsafe fn commit(&self, slot: u64, start: u64, end: u64, task: u64, token: u32, receive: u64) {
        // SAFETY: the caller's contract.
        unsafe { (self.commit)(slot, start, end, task, token, receive) }
    }
}

/// A core's recorder in C.
#[derive(Debug)]
pub struct CoreRecorder {
    glue: &'static Glue,
    state: Box<State>,
}

impl CoreRecorder {
    /// `dfx_aicore_open`.
    ///
    /// # Safety
    /// `entry` is 0 or the address of a u64 that is 0 or names a core's head; all of it outlives the recorder, and no other
    /// recorder exists for this core.
    pub unsafe fn open(glue: &'static Glue, entry: u64) -> Self {
        // What was there before must not matter.
        let mut state = Box::new([0xA5A5_A5A5_A5A5_A5A5; 8]);
        // SAFETY: the caller's contract; the state has room.
        unsafe { (glue.open)(&mut *state, entry) };
        CoreRecorder { glue, state }
    }

    /// `dfx_aicore_resolve`.
    pub fn resolve(&mut self) -> bool {
        // SAFETY: opened; `open`'s caller vouched for the memory.
        unsafe { (self.glue.resolve)(&mut *self.state) != 0 }
    }

    /// `dfx_aicore_reserve`: the slot's address.
    pub fn reserve(&mut self) -> u64 {
        // SAFETY: as above.
        unsafe { (self.glue.reserve)(&mut *self.state) }
    }
}

/// A core's PMU in C.
pub struct CorePmu {
    glue: &'static Glue,
    state: Box<State>,
    _bank: Option<Box<Bank>>,
}

impl CorePmu {
    /// `dfx_aicore_pmu_open` over mapped registers.
    ///
    /// # Safety
    /// `registers` is 0 or maps a core's registers, `entry` is 0 or the address of a u64 that is 0 or names a ring; all of it
    /// outlives this value, and no other exists for this core. The glue is not one of [`Flavor::Hooks`].
    pub unsafe fn mapped(glue: &'static Glue, registers: u64, entry: u64) -> Self {
        let mut state = Box::new([0xA5A5_A5A5_A5A5_A5A5; 8]);
        // SAFETY: the caller's contract; the state has room.
        unsafe { (glue.pmu_open)(&mut *state, registers, entry) };
        CorePmu { glue, state, _bank: None }
    }

    /// `dfx_aicore_pmu_open` over `registers`.
    ///
    /// # Safety
    /// As [`mapped`](Self::mapped); the glue is one of [`Flavor::Hooks`].
    pub unsafe fn hooked(
        glue: &'static Glue,
        registers: impl RegisterFile + Send + 'static,
        entry: u64,
    ) -> Self {
        let bank: Box<Bank> = Box::new(Box::new(registers));
        let base = std::ptr::from_ref(&*bank).expose_provenance() as u64;
        // SAFETY: the caller's contract; the bank is kept.
        CorePmu { _bank: Some(bank), ..unsafe { CorePmu::mapped(glue, base, entry) } }
    }

    /// `dfx_aicore_pmu_begin`.
    pub fn begin(&self) {
        // SAFETY: opened; the caller of the constructor vouched for the memory.
        unsafe { (self.glue.pmu_begin)(&*self.state) }
    }

    /// `dfx_aicore_pmu_end`.
    pub fn end(&self) {
        // SAFETY: as above.
        unsafe { (self.glue.pmu_end)(&*self.state) }
    }

    /// `dfx_aicore_pmu_record`.
    pub fn record(&mut self, token: u32) {
        // SAFETY: as above.
        unsafe { (self.glue.pmu_record)(&*self.state, token) }
    }
}

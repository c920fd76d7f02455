//! What the program API says when it refuses a call.

/// A call that the program API refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// A tensor id of another program.
    #[error(
        "{call}: tensor {tensor} is not one of the program's {known}; pass a TensorId that this builder returned"
    )]
    UnknownTensor {
        /// What was called.
        call: String,
        /// The id.
        tensor: u32,
        /// How many tensors there are.
        known: usize,
    },
    /// A kernel id of another program.
    #[error(
        "{call}: kernel {kernel} is not one of the program's {known}; pass a KernelId that this builder returned"
    )]
    UnknownKernel {
        /// What was called.
        call: String,
        /// The id.
        kernel: u32,
        /// How many kernels there are.
        known: usize,
    },
    /// Used before the submit that creates it.
    #[error("{call}: `{tensor}` has no memory yet; first give it to a submit as `output`, or to `alloc`")]
    NotCreated {
        /// What was called.
        call: String,
        /// The tensor's name.
        tensor: String,
    },
    /// Output of two submits, or of the host and a submit.
    #[error("{call}: `{tensor}` exists already (made by {by}); write it with `output_existing` or `inout`")]
    CreatedTwice {
        /// What was called.
        call: String,
        /// The tensor's name.
        tensor: String,
        /// Who made it.
        by: String,
    },
    /// A number outside its range.
    #[error("{call}: {what} is {value}, accepted is {min} to {max}")]
    OutOfRange {
        /// What was called.
        call: String,
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// A tensor argument after a scalar one.
    #[error(
        "{call}: a tensor argument comes after a scalar; give the tensors first, as the kernels' ABI has them"
    )]
    TensorAfterScalar {
        /// What was called.
        call: String,
    },
    /// A dependency on a submit that has not been made.
    #[error("{call}: depends on submit {dep}, which does not come before it; submit the producer first")]
    LateDep {
        /// What was called.
        call: String,
        /// The submit's number.
        dep: u32,
    },
    /// A dependency on a node that does not come before.
    #[error(
        "{call}: node {node} depends on node {dep}, which does not come before it; add the producer first"
    )]
    LateNodeDep {
        /// What was called.
        call: String,
        /// The node.
        node: usize,
        /// What it depends on.
        dep: u32,
    },
    /// A node without a kernel, or kernels or blocks beside nodes.
    #[error("{call}: {why}; a graph task has one block, no kernel of its own, and nodes with a kernel each")]
    BadGraphTask {
        /// What was called.
        call: String,
        /// What is wrong.
        why: &'static str,
    },
    /// `dumps` or `dump_scalar` names what the submit is not given.
    #[error(
        "{call}: a mark names {what}, which is not one of its arguments; name the value that the kernel is given"
    )]
    MarkOfNoArgument {
        /// What was called.
        call: String,
        /// What was named.
        what: String,
    },
    /// `dumps` on a plain call.
    #[error("{call}: a plain call takes no dumps; use dump_tag before it, or submit(…).dumps(…)")]
    DumpsOnPlainCall {
        /// What was called.
        call: String,
    },
    /// A mark inside a kernel.
    #[error(
        "dump_tag inside the body of kernel `{kernel}`: a kernel cannot choose what is dumped; put it into the \
         orchestration that submits the kernel"
    )]
    MarkInKernel {
        /// The kernel's name.
        kernel: String,
    },
    /// A scope closed that is not open.
    #[error("scope_end: no scope is open; call scope_begin first")]
    ScopeNotOpen,
    /// Scopes left open.
    #[error("build: {open} scope(s) still open; call scope_end for each scope_begin")]
    ScopeNotClosed {
        /// How many.
        open: usize,
    },
    /// A tensor or view that does not fit.
    #[error("{call}: {why}")]
    BadShape {
        /// What was called.
        call: String,
        /// What is wrong, with the values and what is accepted.
        why: String,
    },
}

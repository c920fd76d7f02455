//! Tests of the program API.

use super::*;
use crate::program::Shape;

const F32: DataType = DataType::Float32;

fn builder() -> (ProgramBuilder, KernelId) {
    let mut p = ProgramBuilder::new("test");
    let kernel = p.kernel("nop", Duration::from_micros(1), |_| {});
    (p, kernel)
}

#[test]
fn a_program_keeps_what_was_said_in_order() {
    let (mut p, k) = builder();
    let a = p.host_f32("a", &[2, 3], &[0.0; 6]).unwrap();
    let b = p.tensor("b", F32, &[2, 3]).unwrap();
    let first = p.submit().aic(k).input(a).output(b).f32(1.5).u32(3).done().unwrap();
    p.manual_scope_begin();
    let row = p.view(b, "row", &[3], &[1], 3).unwrap();
    let quiet = p.manual_dep(row).unwrap();
    p.submit().aic(k).aiv(k).aiv1(k).inout(row).deps(&[first]).blocks(4).early_dispatch().done().unwrap();
    p.scope_end().unwrap();
    p.submit().deps(&[first]).predicate(false).done().unwrap();
    p.submit().node([Some(k), None, None], &[]).node([None, Some(k), Some(k)], &[0]).done().unwrap();
    let program = p.build().unwrap();

    let submits: Vec<_> = program.submits().collect();
    let shapes: Vec<_> = submits.iter().map(|s| s.shape()).collect();
    assert_eq!(shapes, [Shape::Aic, Shape::Mix, Shape::None, Shape::None]);
    assert_eq!(submits.iter().map(|s| s.core_rows()).collect::<Vec<_>>(), [1, 12, 0, 3]);
    assert_eq!(submits[0].args[2], Arg::Scalar(0x3FC0_0000, F32));
    assert_eq!(program.buffers[1].creator, Some(first));
    assert_eq!(program.tensors[1].strides, [3, 1]);
    assert_eq!((program.tensors[2].start_offset, program.tensors[2].end()), (3, 6));
    assert!(program.tensors[quiet.0 as usize].manual_dep && !program.tensors[row.0 as usize].manual_dep);
    assert!(matches!(program.ops[1], Op::ScopeBegin { manual: true }));
    assert!(matches!(program.ops[3], Op::ScopeEnd));
}

#[test]
fn tensors_must_exist_once_and_before_they_are_used() {
    let (mut p, k) = builder();
    let host = p.host("host", F32, &[4], Init::Zero).unwrap();
    let made = p.tensor("made", F32, &[4]).unwrap();
    let half = p.view(made, "half", &[2], &[1], 0).unwrap();
    let text = p.submit().aiv(k).input(half).done().unwrap_err().to_string();
    assert!(text.contains("submit 0 (nop): `half` has no memory yet"), "{text}");
    assert!(matches!(
        p.submit().aiv(k).output(made).input(half).done(),
        Err(BuildError::NotCreated { tensor, .. }) if tensor == "half"
    ));
    assert!(
        matches!(p.alloc(&[made, half]), Err(BuildError::CreatedTwice { tensor, .. }) if tensor == "half")
    );
    p.alloc(&[made]).unwrap();
    p.submit().aiv(k).input(half).output_existing(made).done().unwrap();
    let text = p.submit().aiv(k).output(made).done().unwrap_err().to_string();
    assert!(text.contains("made by submit 0") && text.contains("`output_existing`"), "{text}");
    let text = p.alloc(&[host]).unwrap_err().to_string();
    assert!(text.starts_with("submit 2 (alloc): `host` exists already (made by the host)"), "{text}");
}

#[test]
fn ids_of_elsewhere_are_refused_and_named() {
    let (mut p, k) = builder();
    let x = p.host("x", F32, &[1], Init::Zero).unwrap();
    let unknown = |tensor| BuildError::UnknownTensor { call: "submit 0 (nop)".into(), tensor, known: 1 };
    assert_eq!(p.submit().aiv(k).input(x).inout(TensorId(9)).done(), Err(unknown(9)));
    assert!(matches!(p.view(TensorId(7), "v", &[1], &[1], 0), Err(BuildError::UnknownTensor { .. })));
    assert!(matches!(p.submit().aic(KernelId(1)).done(), Err(BuildError::UnknownKernel { kernel: 1, .. })));
    let node = [None, Some(KernelId(2)), None];
    assert!(matches!(p.submit().node(node, &[]).done(), Err(BuildError::UnknownKernel { kernel: 2, .. })));
    assert!(matches!(p.submit().aiv(k).deps(&[SubmitId(0)]).done(), Err(BuildError::LateDep { dep: 0, .. })));
}

#[test]
fn the_limits_of_the_abi_hold() {
    let (mut p, k) = builder();
    let x = p.host("x", F32, &[1], Init::Zero).unwrap();
    let refused = |result: Result<SubmitId, BuildError>, text: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(p.submit().aiv(k).blocks(0).done(), "block_num is 0, accepted is 1 to 65535");
    refused(p.submit().aiv(k).blocks(65_536).done(), "block_num is 65536");
    let tensors = (0..33).fold(p.submit().aiv(k), |submit, _| submit.input(x));
    refused(tensors.done(), "tensor arguments is 33, accepted is 0 to 32");
    let scalars = (0..17).fold(p.submit().aiv(k), |submit, i| submit.u32(i));
    refused(scalars.done(), "scalar arguments is 17, accepted is 0 to 16");
    refused(p.submit().aiv(k).u32(1).input(x).done(), "give the tensors first");
    let most = (0..32).fold(p.submit().aiv(k), |submit, _| submit.input(x));
    (0..16).fold(most, |submit, i| submit.u32(i)).blocks(65_535).done().unwrap();
}

#[test]
fn scopes_must_match() {
    let (mut p, _) = builder();
    assert_eq!(p.scope_end(), Err(BuildError::ScopeNotOpen));
    p.scope_begin();
    p.manual_scope_begin();
    p.scope_end().unwrap();
    assert!(matches!(p.build(), Err(BuildError::ScopeNotClosed { open: 1 })));
}

#[test]
fn views_must_lie_in_their_buffer() {
    let (mut p, _) = builder();
    let x = p.host("x", F32, &[4, 4], Init::Zero).unwrap();
    let refused = |result: Result<TensorId, BuildError>, text: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(p.view(x, "v", &[2, 2], &[4, 1], 11), "reach element 17 of a buffer of 16");
    refused(p.view(x, "v", &[2], &[u32::MAX], u64::MAX), "reach element");
    refused(p.view(x, "v", &[2], &[1, 1], 0), "2 strides for 1 dimensions");
    refused(p.view(x, "v", &[1; 6], &[1; 6], 0), "6 dimensions, accepted are 0 to 5");
    refused(p.view(x, "v", &[2, 2], &[0, 1], 0), "every stride is at least 1");
    refused(p.tensor("huge", F32, &[u32::MAX; 5]), "more bytes than an address space");
    refused(p.tensor("wide", F32, &[2, 1 << 31, 2]), "more than 32 bits");
    refused(p.host_f32("few", &[2], &[1.0]), "1 values for shape [2], which takes 2");
    let inner = p.view(x, "inner", &[2, 2], &[4, 1], 10).unwrap();
    refused(p.view(inner, "v", &[7], &[1], 0), "reach element 17");
    p.view(x, "scalar", &[], &[], 15).unwrap();
    p.view(x, "empty", &[0], &[1], 16).unwrap();
}

#[test]
fn graph_tasks_have_nodes_only() {
    let (mut p, k) = builder();
    let node = [None, Some(k), None];
    assert!(matches!(
        p.submit().node(node, &[]).node(node, &[1]).done(),
        Err(BuildError::LateNodeDep { node: 1, dep: 1, .. })
    ));
    assert!(matches!(p.submit().aiv(k).node(node, &[]).done(), Err(BuildError::BadGraphTask { .. })));
    assert!(matches!(p.submit().blocks(2).node(node, &[]).done(), Err(BuildError::BadGraphTask { .. })));
    assert!(matches!(p.submit().node([None; 3], &[]).done(), Err(BuildError::BadGraphTask { .. })));
    p.submit().node(node, &[]).node(node, &[0]).done().unwrap();
}

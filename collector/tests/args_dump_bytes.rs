//! The bytes that the args dump takes are the logical bytes of the view, whatever the view.

#[path = "plain/args_dump.rs"]
mod args_dump;
mod plain;

use args_dump::{Host, Shape, TICKS_PER_MS, Tensor, flush, record, scalar};
use dfx_collector::abi::args_dump::{FLAG_ARG_INDEX_AMBIGUOUS, Info, Kind, Level, Role, Stage};
use dfx_collector::abi::tensor::DataType;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use plain::PLATFORMS;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Records all, and compares what arrives with the oracle.
fn check(tensors: &[Tensor], shape: Shape) {
    let mut host = Host::new(shape);
    let dump = host.launch(ScriptClock::new(0, TICKS_PER_MS / 10));
    for (at, tensor) in tensors.iter().enumerate() {
        let info = Info { task_id: at as u64, ..tensor.info() };
        assert!(record(&dump, 0, &info));
        if at % 16 == 15 {
            flush(&dump, 0);
            host.take();
            host.save(0, usize::MAX);
        }
    }
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(host.saved.len(), tensors.len());
    for (saved, tensor) in host.saved.iter().zip(tensors) {
        let (record, info) = (&saved.record, &tensor.info);
        assert!(saved.bytes == tensor.oracle(), "{info:?}");
        assert_eq!((record.truncated, record.flags), (0, 0));
        assert_eq!(
            (record.dtype, record.ndims, record.start_offset),
            (info.dtype, info.ndims, info.start_offset)
        );
        let n = info.ndims as usize;
        assert_eq!((&record.shapes[..n], &record.strides[..n]), (&info.shapes[..n], &info.strides[..n]));
    }
    host.balance(0);
}

#[test]
fn random_views_of_all_types_arrive_as_their_indices_say() {
    let mut random = SmallRng::seed_from_u64(4);
    for round in 0..scaled(60, 4) as usize {
        let most = [3, scaled(5, 4), scaled(9, 5), scaled(17, 6)][round % 4];
        let tensors: Vec<Tensor> = std::iter::repeat_with(|| Tensor::random(&mut random, most))
            .filter(|tensor| tensor.len <= 1 << 20)
            .take(scaled(60, 12) as usize)
            .collect();
        let geometry = PLATFORMS[round % 2];
        for dedup in [false, true] {
            check(&tensors, Shape { geometry, arena: 1 << 22, dedup, ..Shape::SMALL });
        }
    }
}

#[test]
fn large_transposes_rows_and_steps_of_every_element_size_arrive_as_their_indices_say() {
    let mut random = SmallRng::seed_from_u64(5);
    for dtype in [DataType::Uint8, DataType::Bfloat16, DataType::Float32, DataType::Int64] {
        let mut make = |shapes: &[u32], strides: &[u32]| {
            // A tile and a bit of the next is enough for an interpreter.
            let shapes: Vec<u32> = shapes.iter().map(|n| *n.min(&scaled(u32::MAX, 11))).collect();
            Tensor::new(&mut random, dtype, &shapes, strides, 3)
        };
        let tensors = [
            make(&[128, 128], &[1, 128]),
            make(&[37, 53], &[1, 40]),
            make(&[7, 100], &[1, 7]),
            make(&[100, 7], &[1, 101]),
            make(&[3, 40, 20], &[800, 1, 40]),
            make(&[40, 3, 20], &[1, 800, 40]),
            make(&[3, 20, 40], &[1, 3, 60]),
            make(&[2, 3, 4, 5, 6], &[1, 2, 6, 24, 120]),
            make(&[64, 48], &[100, 1]),
            make(&[64, 9], &[100, 1]),
            make(&[64, 2], &[5, 1]),
            make(&[2, 64, 2], &[2, 5, 1]),
            make(&[64, 2], &[2, 200]),
            make(&[500], &[3]),
            make(&[5, 4, 3], &[100, 20, 5]),
            make(&[1, 40, 1, 20, 1], &[9, 40, 9, 1, 9]),
            make(&[4, 5], &[0, 1]),
        ];
        check(&tensors, Shape { arena: 1 << 20, ..Shape::SMALL });
    }
}

#[test]
fn nothing_has_no_bytes_and_is_recorded() {
    let mut random = SmallRng::seed_from_u64(6);
    let mut tensors = Vec::new();
    for shapes in [&[0][..], &[3, 0], &[0, 5, 2], &[2, 3, 0, 1, 4]] {
        tensors.push(Tensor::dense(&mut random, DataType::Float32, shapes));
    }
    tensors.push(Tensor::dense(&mut random, DataType::Float32, &[]));
    check(&tensors, Shape::SMALL);
}

#[test]
fn a_type_that_does_not_exist_has_no_bytes() {
    let mut host = Host::new(Shape::SMALL);
    let dump = host.launch(ScriptClock::new(0, 1));
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Int8, &[4]);
    assert!(record(&dump, 0, &Info { dtype: 99, ..tensor.info() }));
    flush(&dump, 0);
    host.finish(false);
    let record = host.saved[0].record;
    assert_eq!((record.dtype, record.payload_size, record.truncated), (99, 0, 0));
}

#[test]
fn the_bits_of_every_nan_survive() {
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Float32, &[4, 2]);
    let bits =
        [0x7FC0_0000u32, 0x7F80_0001, 0xFFFF_FFFF, 0xFF80_1234, 0x8000_0000, 1, 0x7FBF_FFFF, 0x7F80_0000];
    let shift = (tensor.info.buffer_addr - tensor.memory.addr(0).0) as usize;
    for (at, byte) in bits.iter().flat_map(|bits| bits.to_le_bytes()).enumerate() {
        tensor.poke(shift + at, byte);
    }
    let transposed = Info { shapes: [2, 4, 0, 0, 0], strides: [1, 2, 0, 0, 0], ..tensor.info() };
    let mut host = Host::new(Shape::SMALL);
    let dump = host.launch(ScriptClock::new(0, 1));
    assert!(record(&dump, 0, &tensor.info) && record(&dump, 0, &transposed));
    flush(&dump, 0);
    host.finish(false);
    let back = |at: usize| -> Vec<u32> {
        let words = host.saved[at].bytes.chunks(4);
        words.map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    };
    assert_eq!(back(0), bits);
    let turned = [0, 2, 4, 6, 1, 3, 5, 7].map(|at| bits[at]);
    assert_eq!(back(1), turned);
    assert_eq!((host.saved[0].record.is_contiguous, host.saved[1].record.is_contiguous), (1, 0));
}

#[test]
fn a_record_says_what_its_caller_said() {
    let mut host = Host::new(Shape { level: Level::Full, ..Shape::SMALL });
    let dump = host.launch(ScriptClock::new(0, 1));
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Int16, &[2, 3]);
    let given = Info {
        task_id: 0x2_0000_0007,
        role: Role::Inout as u8,
        stage: Stage::AfterCompletion as u8,
        arg_index: 70,
        func_ids: [4, -1, 65_000],
        func_count: 3,
        // A caller cannot say what only the dump knows.
        flags: 7,
        scalar_value: 99,
        ..tensor.info
    };
    assert!(record(&dump, 0, &given));
    assert!(record(&dump, 0, &Info { func_count: 9, ..scalar(5, 1, u64::MAX) }));
    assert!(record(&dump, 0, &Info { func_count: -2, ..scalar(5, 2, 1) }));
    flush(&dump, 0);
    host.finish(false);
    let [tensor, scalar, other] = [0, 1, 2].map(|at| host.saved[at].record);
    assert_eq!((tensor.task_id, tensor.role, tensor.stage, tensor.arg_index), (0x2_0000_0007, 2, 1, 70));
    assert_eq!((tensor.func_ids, tensor.func_count), ([4, 0xFFFF, 65_000], 3));
    assert_eq!((tensor.flags, tensor.kind, tensor.scalar_value), (FLAG_ARG_INDEX_AMBIGUOUS, 0, 0));
    assert_eq!((scalar.task_id, scalar.arg_index, scalar.kind), (5, 1, Kind::Scalar as u8));
    assert_eq!((scalar.scalar_value, scalar.payload_size, scalar.ndims), (u64::MAX, 0, 0));
    assert_eq!((scalar.is_contiguous, scalar.truncated), (1, 0));
    assert_eq!((scalar.func_ids[..2].to_vec(), scalar.func_count, other.func_count), (vec![1, 2], 3, 0));
}

#[test]
fn what_is_larger_than_the_arena_keeps_the_first_half_arena_of_its_logical_bytes() {
    let mut random = SmallRng::seed_from_u64(9);
    let (n, long) = (scaled(35, 10), scaled(1500, 600));
    for arena in [1 << 12, 4096 + 6] {
        for (shapes, strides) in [
            (&[long, 3][..], &[3, 1][..]),
            (&[2 * n, 60], &[1, 70]),
            (&[2 * n, 60], &[64, 1]),
            (&[3, 40, n], &[1, 3, 120]),
            (&[3, 40, n], &[2, 6, 240]),
            (&[40, 2 * n, 2], &[160, 2, 1]),
            (&[40, 2 * n, 2], &[2, 80, 1]),
            (&[2, long], &[1600, 1]),
        ] {
            let tensor = Tensor::new(&mut random, DataType::Float32, shapes, strides, 1);
            let mut host = Host::new(Shape { arena, dedup: random.random(), ..Shape::SMALL });
            let dump = host.launch(ScriptClock::new(0, 1));
            for _ in 0..2 {
                assert!(record(&dump, 0, &tensor.info));
            }
            flush(&dump, 0);
            host.finish(false);
            let oracle = tensor.oracle();
            for saved in &host.saved {
                assert_eq!((saved.record.truncated, saved.record.flags), (1, 0), "{shapes:?}");
                assert_eq!(saved.bytes, oracle[..arena / 2], "{shapes:?} {strides:?}");
            }
            host.balance(0);
        }
    }
}

#[test]
fn what_is_exactly_as_large_as_the_arena_is_whole() {
    let mut random = SmallRng::seed_from_u64(9);
    let mut host = Host::new(Shape { arena: 4096, ..Shape::SMALL });
    let dump = host.launch(ScriptClock::new(0, 1));
    let tensors =
        [[1u32], [4096], [5], [4096], [4096]].map(|n| Tensor::dense(&mut random, DataType::Uint8, &n));
    for tensor in &tensors {
        assert!(record(&dump, 0, &tensor.info));
        flush(&dump, 0);
        host.take();
        host.save(0, usize::MAX);
    }
    for (saved, tensor) in host.saved.iter().zip(&tensors) {
        assert!(saved.bytes == tensor.oracle() && saved.record.truncated == 0);
    }
    host.balance(0);
}

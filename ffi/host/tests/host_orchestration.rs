//! A runtime that orchestrates on its host hands over its own submits, uploads and clock readings.

use dfx::*;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64) -> u64 {
    Box::leak(vec![0u64; (bytes / 8 + 1) as usize].into_boxed_slice()).as_ptr().expose_provenance() as u64
}

unsafe extern "C" fn free(_: *mut c_void, addr: u64, bytes: u64) {
    let block = std::ptr::with_exposed_provenance_mut::<u64>(addr as usize);
    // SAFETY: what `alloc` leaked, given back once.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(block, (bytes / 8 + 1) as usize)) });
}

fn ok(status: dfx_status_e) {
    // SAFETY: the message of this thread, copied before its next call.
    let message = || unsafe { CStr::from_ptr(dfx_last_error()) }.to_string_lossy().into_owned();
    assert_eq!(status, dfx_status_e::DFX_OK, "{}", message());
}

#[test]
fn what_the_host_recorded_is_in_the_swimlanes_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = CString::new(dir.path().join("out").as_os_str().as_bytes()).unwrap();
    let (mut config, mut session) = (null_mut(), null_mut());
    // SAFETY: every pointer below is to a local that outlives its call.
    unsafe {
        ok(dfx_config_create(&mut config));
        ok(dfx_config_set_chip_swimlane(config, 3));
        ok(dfx_config_set_output(config, output.as_ptr()));
        let kinds = [0u8, 1];
        let board = dfx_board_t {
            size: size_of::<dfx_board_t>() as u32,
            target: dfx_target_e::DFX_TARGET_A2A3 as u32,
            cores: 2,
            aicpu_threads: 2,
            core_types: kinds.as_ptr(),
        };
        let memory = dfx_memory_t {
            size: size_of::<dfx_memory_t>() as u32,
            reserved: 0,
            ctx: null_mut(),
            alloc: Some(alloc),
            free: Some(free),
            register_host: None,
            unregister_host: None,
            copy_to_device: None,
            copy_from_device: None,
        };
        ok(dfx_session_create(config, &board, &memory, &mut session));
        ok(dfx_config_destroy(config));
        ok(dfx_session_start(session));
        let submits = [7u64, 8].map(|task_id| dfx_host_submit_t {
            task_id,
            start_ns: 100 * task_id,
            end_ns: 100 * task_id + 10,
            submit_idx: task_id as u32 - 7,
            reserved: 0,
        });
        ok(dfx_session_add_host_submits(session, submits.as_ptr(), submits.len()));
        let upload = dfx_host_upload_t {
            phase: dfx_upload_e::DFX_UPLOAD_ARENA as u32,
            reserved: 0,
            start_ns: 5,
            end_ns: 6,
            detail: 4096,
        };
        ok(dfx_session_add_host_uploads(session, &upload, 1));
        ok(dfx_session_set_host_capture(session, 2, 2, 3, 0));
        ok(dfx_session_set_anchors(session, c"acl_event".as_ptr(), c"device_uptime_us".as_ptr(), 3));
        let anchor = dfx_anchor_t {
            position: dfx_anchor_e::DFX_ANCHOR_AFTER as u32,
            sample_idx: 0,
            host_before_ns: 10,
            host_after_ns: 21,
            raw_device_timestamp: 0,
            device_cycles: 0,
            error_code: -3,
            error_stage: c"record_event".as_ptr(),
        };
        ok(dfx_session_add_anchor(session, &anchor));
        ok(dfx_session_stop(session, dfx_end_e::DFX_END_COMPLETED as u32));
        ok(dfx_session_reconcile(session));
        ok(dfx_session_export(session, null()));
        ok(dfx_session_destroy(session));
    }
    let text = std::fs::read(dir.path().join("out/chip_swimlane_records.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let submit = &file["host_orchestrator_phases"][0][1];
    assert_eq!((submit["task_id"].as_u64(), submit["start_host_ns"].as_u64()), (Some(8), Some(800)));
    assert_eq!(file["host_device_uploads"][0]["phase"], "arena_h2d");
    assert_eq!(file["metadata"]["host_capture"]["status"], "complete");
    let sample = &file["metadata"]["clock_anchors"]["samples"][0];
    assert_eq!(sample["position"], "post_device_execution");
    assert_eq!((&sample["uncertainty_ns"], &sample["error"]["code"]), (&6.into(), &(-3).into()));
}

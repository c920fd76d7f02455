/* ChipSwimlaneCollector over dfx.h, in place of the runtime's header of this name; see dfx_dropin_session.h. */
#ifndef DFX_DROPIN_CHIP_SWIMLANE_COLLECTOR_H
#define DFX_DROPIN_CHIP_SWIMLANE_COLLECTOR_H

#include "common/chip_swimlane_profiling.h"
#include "common/core_type.h"
#include "dfx_dropin_session.h"
#include "host/clock_correlation.h"

using ChipSwimlaneAllocCallback = profiling_common::ProfAllocCallback;
using ChipSwimlaneRegisterCallback = profiling_common::ProfRegisterCallback;
using ChipSwimlaneUnregisterCallback = profiling_common::ProfUnregisterCallback;
using ChipSwimlaneFreeCallback = profiling_common::ProfFreeCallback;

class ChipSwimlaneCollector {
public:
    int initialize(int num_aicore, int aicpu_thread_num, int device_id, ChipSwimlaneLevel level,
                   const ChipSwimlaneAllocCallback &alloc_cb, ChipSwimlaneRegisterCallback register_cb,
                   const ChipSwimlaneFreeCallback &free_cb, const std::string &output_prefix) {
        return session_.open(num_aicore, aicpu_thread_num, {alloc_cb, register_cb, free_cb, device_id}, output_prefix,
                             [level](dfx_config_h config) {
                                 return dfx_config_set_chip_swimlane(config, static_cast<std::int32_t>(level));
                             });
    }
    bool is_initialized() const { return session_.is_open(); }
    void *get_chip_swimlane_setup_device_ptr() const { return at(session_.regions().swimlane_base); }
    void *get_aicore_ring_addr_table_device_ptr() const { return at(session_.regions().swimlane_rotation_table); }

    void set_core_types(const CoreType *types, int n) {
        if (types == nullptr || n <= 0 || !session_.is_open()) return;
        std::vector<std::uint8_t> bytes;
        for (int i = 0; i < n; ++i) bytes.push_back(types[i] == CoreType::AIC ? DFX_CORE_AIC : DFX_CORE_AIV);
        session_.ok(dfx_session_set_core_types(session_.handle(), bytes.data(), bytes.size()), "core types");
    }

    /* Nothing to do: the orchestrator's lane stays empty then, and the host's records say whose they are. */
    void set_host_orchestrated(bool) noexcept {}

    /* The host's own submits and uploads; may come before the initialization. */
    void set_host_phase_records(std::vector<HostPhaseRecord> submits, std::vector<HostPhaseRecord> uploads,
                                std::uint64_t submitted_tasks, std::uint64_t total_records,
                                std::uint64_t dropped_records) {
        host_submits_.clear();
        host_uploads_.clear();
        for (const HostPhaseRecord &record : submits) {
            host_submits_.push_back({record.payload, record.start_ns, record.end_ns, record.index, 0});
        }
        for (const HostPhaseRecord &record : uploads) {
            host_uploads_.push_back({upload_of(record.kind), 0, record.start_ns, record.end_ns, record.payload});
        }
        capture_ = {submitted_tasks, total_records, dropped_records};
        has_host_records_ = true;
    }

    void begin_clock_correlation_session(const char *provider, const char *raw_unit) {
        anchors_.clear();
        provider_ = provider;
        raw_unit_ = raw_unit;
        anchoring_ = has_anchors_ = true;
    }
    void record_clock_anchor_samples(std::vector<simpler::dfx::ClockAnchorSample> samples) {
        for (const simpler::dfx::ClockAnchorSample &sample : samples) {
            const bool failed = sample.error_stage != simpler::dfx::ClockAnchorErrorStage::None;
            dfx_anchor_t anchor = {};
            anchor.position = static_cast<std::uint32_t>(sample.position);
            anchor.sample_idx = sample.sample_idx;
            anchor.host_before_ns = sample.host_before_ns;
            anchor.host_after_ns = sample.host_after_ns;
            anchor.raw_device_timestamp = sample.raw_device_timestamp;
            anchor.device_cycles = sample.device_cycles;
            anchor.error_code = sample.error_code;
            anchor.error_stage = failed ? simpler::dfx::clock_anchor_error_stage_name(sample.error_stage) : nullptr;
            anchors_.push_back(anchor);
        }
    }
    void finish_clock_correlation_session() { anchoring_ = false; }
    bool clock_correlation_active() const { return anchoring_; }

    void start(const profiling_common::ThreadFactory &thread_factory) { session_.start(thread_factory); }
    void stop() { session_.stop(); }
    /* The mapping of cores to threads is read when the account is closed. */
    void read_phase_header_metadata() {}
    void reconcile_counters() { session_.reconcile(); }

    int export_swimlane_json() {
        if (!session_.is_open() || !add_host_records() || !add_anchors()) return -1;
        return session_.write({});
    }

    int finalize(ChipSwimlaneUnregisterCallback unregister_cb, const ChipSwimlaneFreeCallback &free_cb) {
        session_.close(unregister_cb, free_cb);
        has_host_records_ = has_anchors_ = anchoring_ = false;
        return 0;
    }

private:
    struct Capture {
        std::uint64_t submitted = 0;
        std::uint64_t total = 0;
        std::uint64_t dropped = 0;
    };

    bool add_host_records() {
        const dfx_session_h session = session_.handle();
        return !has_host_records_ ||
               (session_.ok(dfx_session_add_host_submits(session, host_submits_.data(), host_submits_.size()), "submits") &&
                session_.ok(dfx_session_add_host_uploads(session, host_uploads_.data(), host_uploads_.size()), "uploads") &&
                session_.ok(dfx_session_set_host_capture(session, capture_.submitted, host_submits_.size(), capture_.total,
                                                         capture_.dropped),
                            "capture"));
    }
    bool add_anchors() {
        if (!has_anchors_) return true;
        const auto per_position = static_cast<std::uint32_t>(simpler::dfx::kClockAnchorSamplesPerPosition);
        bool good = session_.ok(
            dfx_session_set_anchors(session_.handle(), provider_.c_str(), raw_unit_.c_str(), per_position), "anchors");
        for (const dfx_anchor_t &anchor : anchors_) {
            good = good && session_.ok(dfx_session_add_anchor(session_.handle(), &anchor), "anchors");
        }
        return good;
    }

    static void *at(std::uint64_t address) { return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address)); }
    static std::uint32_t upload_of(std::uint32_t kind) {
        switch (static_cast<HostPhaseKind>(kind)) {
        case HostPhaseKind::BindSmH2d:
            return DFX_UPLOAD_SHARED_MEMORY;
        case HostPhaseKind::BindArenaH2d:
            return DFX_UPLOAD_ARENA;
        default:
            return DFX_UPLOAD_GRAPH;
        }
    }

    dfx_dropin::Session session_{"chip swimlane", DFX_FEATURE_CHIP_SWIMLANE};
    std::vector<dfx_host_submit_t> host_submits_;
    std::vector<dfx_host_upload_t> host_uploads_;
    std::vector<dfx_anchor_t> anchors_;
    Capture capture_;
    std::string provider_;
    std::string raw_unit_;
    bool has_host_records_ = false;
    bool has_anchors_ = false;
    bool anchoring_ = false;
};

#endif /* DFX_DROPIN_CHIP_SWIMLANE_COLLECTOR_H */

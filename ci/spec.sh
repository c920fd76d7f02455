#!/usr/bin/env bash
# SPECIFICATION.md: every promise names at least one test, or a script of ci/ that proves it, or says which issue it waits
# for, no number is used twice, and every test that is named (`path/file.rs::name`) exists, as a test that is not ignored,
# and every script (`ci/name.sh`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

awk '
    function fault(text) { printf "SPECIFICATION.md:%d: %s\n", line, text; faults++ }
    function close_promise() { if (id != "" && !proofs) { line = opened; fault(id " names no test and is not pending") } id = "" }

    # Reads the tests of a Rust source once: "path::name" is set to 1, or to 2 where the test is ignored.
    function load(path,   text, attribute, ignored, name) {
        if (path in loaded) return
        loaded[path] = 1
        while ((getline text < path) > 0) {
            readable[path] = 1
            if (text ~ /^[ \t]*#\[test\]/) { attribute = 1; ignored = 0 }
            else if (attribute && text ~ /^[ \t]*#\[ignore/) ignored = 1
            else if (attribute && match(text, /fn +[a-zA-Z0-9_]+/)) {
                name = substr(text, RSTART, RLENGTH)
                sub(/fn +/, "", name)
                test[path "::" name] = 1 + ignored
                attribute = 0
            }
        }
        close(path)
    }

    function check(reference,   parts, path) {
        split(reference, parts, "::")
        path = parts[1]
        load(path)
        named++
        if (!(path in readable)) fault(path " does not exist")
        else if (!(reference in test)) fault("there is no test `" parts[2] "` in " path)
        else if (test[reference] == 2) fault("the test `" parts[2] "` in " path " is ignored")
    }

    {
        line = NR
        rest = $0
    }
    /^\*\*[A-Z]+[0-9]+\*\*/ {
        close_promise()
        match($0, /[A-Z]+[0-9]+/)
        id = substr($0, RSTART, RLENGTH)
        opened = NR
        proofs = 0
        promises++
        if (id in seen) fault(id " is used twice")
        seen[id] = 1
    }
    /^#/ { close_promise() }
    {
        text = $0
        while (match(text, /`ci\/[a-z0-9]+\.sh`/)) {
            script = substr(text, RSTART + 1, RLENGTH - 2)
            if ((getline ignored < script) < 0) fault(script " does not exist")
            close(script)
            text = substr(text, RSTART + RLENGTH)
        }
    }
    # A line that begins with a script names it as the proof; elsewhere it is a remark.
    /^`ci\/[a-z0-9]+\.sh`/ && id != "" { proofs++ }
    /pending \((issue [0-9]+|no issue yet)\)/ && id != "" { proofs++; pending++ }
    {
        while (match(rest, /`[a-z0-9_\/-]+\.rs::[a-z0-9_]+`/)) {
            check(substr(rest, RSTART + 1, RLENGTH - 2))
            proofs++
            rest = substr(rest, RSTART + RLENGTH)
        }
    }
    END {
        close_promise()
        printf "%d promises, %d references to tests, %d pending\n", promises, named, pending
        if (!promises) { print "SPECIFICATION.md: no promise found"; faults++ }
        exit faults > 0
    }
' SPECIFICATION.md

#!/usr/bin/env bash
# Checks in the machine code of a release build that nothing the allocator's methods can reach
# panics: the program's call of malloc must never end in the tracker's panic.
#
# A program with the tracker as its global allocator is built and disassembled. From the methods of
# the allocator (and what the system calls when a thread ends) every direct call and jump is
# followed, and every load of a function's address, through all functions of the program, the table
# of imported functions included; none may lead to core::panicking. It also fails if it cannot see the functions that must be on the way.
# Works in target/no_panic. Needs Rust and objdump (binutils).
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/target/no_panic
mkdir -p "$work"
cargo build --quiet --release --manifest-path tests/programs/Cargo.toml -p no-panic --target-dir target/programs

# The relocations tell where a call through the table of imported functions leads.
binary=target/programs/release/no-panic
{
    objdump -d --no-show-raw-insn -w "$binary"
    echo "RELOCATIONS"
    objdump -R -w "$binary"
    echo "SYMBOLS"
    objdump -t -w "$binary"
} >"$work/code"

awk '
    function hex(text,    value, i) {
        value = 0
        text = tolower(text)
        sub(/^0x/, "", text)
        sub(/^0+/, "", text)
        for (i = 1; i <= length(text); i++)
            value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
        return value
    }
    $0 == "RELOCATIONS" { part = 1; next }
    $0 == "SYMBOLS" { part = 2; next }

    # The code: functions, and where each calls or jumps to.
    !part && /^[0-9a-f]+ <.*>:$/ {
        current = $2
        sub(/^</, "", current)
        sub(/>:$/, "", current)
        functions[current] = 1
        next
    }
    # An address that is only loaded counts as called: the call may be by that register.
    !part && ($2 ~ /^(call|jmp|j[a-z]+)$/ || $2 ~ /^(mov|lea)$/ && /# [0-9a-f]+/) {
        target = ""
        if ($2 == "lea") {
            target = $0
            sub(/^.*# [0-9a-f]+ </, "", target)
            sub(/>$/, "", target)
        } else if ($0 ~ /\(%rip\) +# [0-9a-f]+/) {
            # Through a table: at this address stands the target.
            target = $0
            sub(/.*# /, "", target)
            sub(/ .*/, "", target)
            target = "@" target
        } else if ($0 ~ /<.*>/) {
            target = $0
            sub(/^[^<]*</, "", target)
            sub(/>$/, "", target)
            sub(/\+0x[0-9a-f]+$/, "", target)
        }
        if (target != "" && target != current && !((current, target) in seen)) {
            seen[current, target] = 1
            calls[current] = calls[current] " " target
        }
        next
    }

    # 000fa5e8 R_X86_64_GLOB_DAT malloc@GLIBC   or   000fa5e0 R_X86_64_RELATIVE *ABS*+0x36d80
    part == 1 && $2 ~ /^R_/ {
        target = $3
        if (target ~ /^\*ABS\*\+0x/) {
            sub(/.*\+0x/, "", target)
            entry[hex($1)] = "#" hex(target)
        } else {
            entry[hex($1)] = target
        }
        next
    }

    # 0000000000036d80 l     F .text  00000000000001b0   name
    part == 2 && / F \.text/ { at[hex($1)] = $NF }

    END {
        for (name in functions)
            if (name ~ /TrackingAllocator|__rust(c[^_]*)?_*(alloc|dealloc|realloc|alloc_zeroed)$|___rust_(alloc|dealloc|realloc|alloc_zeroed)$|retire_current|thread_exits/)
                queue[++last] = name
        for (i = 1; i <= last; i++)
            from[queue[i]] = "the allocator"
        for (i = 1; i <= last; i++) {
            name = queue[i]
            reached++
            count = split(calls[name], targets, " ")
            for (j = 1; j <= count; j++) {
                target = targets[j]
                if (target ~ /^@/) {
                    target = entry[hex(substr(target, 2))]
                    if (target ~ /^#/) target = at[substr(target, 2) + 0]
                }
                if (target ~ /4core9panicking|rust_panic|begin_panic|handle_alloc_error/) {
                    print "FAILED: " name " can panic by " target
                    for (name = from[name]; name in from; name = from[name])
                        print "    reached from " name
                    failed = 1
                    name = queue[i]
                    continue
                }
                if (target in functions && !(target in from)) {
                    from[target] = name
                    queue[++last] = target
                }
            }
        }
        # What must be on the way, or this check is blind.
        split("alloc_recorded dealloc_recorded realloc_recorded enter_cold thread_exits 4sync11synchronize", must, " ")
        for (i in must) {
            found = 0
            for (name in from) if (index(name, must[i])) found = 1
            if (!found) {
                print "FAILED: the check does not see " must[i]
                failed = 1
            }
        }
        printf "%d functions can be reached from the allocator", reached
        print failed ? "" : "; none of them can panic"
        exit failed
    }
' "$work/code"

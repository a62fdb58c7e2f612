# Sourced by the scripts beside it. Builds the command (`$memledger`) and records real traces into a folder
# (`$traces`), unless these are set: programs with scopes, names and several threads, with call stacks, without, and
# sampled. `$out` is a folder for what is made of them. Removes both folders at the end.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out
mkdir "$out"
if [ -z "${memledger:-}" ] || [ -z "${traces:-}" ]; then
    . scripts/command.sh
    traces=$scratch/traces
    mkdir "$traces"
    # record NAME STACKS PROGRAM ARGUMENTS...
    record() {
        local name=$1 stacks=$2
        shift 2
        env -u MEMLEDGER_CHANNELS -u MEMLEDGER_HOST -u MEMLEDGER_CONTROL MEMLEDGER_REPORT=off \
            MEMLEDGER_STACKS="$stacks" MEMLEDGER_TRACE="$traces/$name.memledger" "$@" >/dev/null
    }
    record stacks on "$examples/parse_sources" src/events
    record no-stacks off "$examples/parse_sources" src/events
    record names on "$examples/containers"
    record sampled sample:4KiB "$examples/parse_sources" src/events
    # Its end is missing.
    head -c $(($(stat -c %s "$traces/stacks.memledger") * 2 / 3)) "$traces/stacks.memledger" >"$traces/cut.memledger"
fi

# Sourced after record.sh by the scripts of viewers that run in a browser.

# export_all FORMAT: exports each trace to FORMAT, and writes its report beside it: NAME.FORMAT.json and
# NAME.report.json in $out. The trace `cut` lacks its end: export says so and exits with 1, and writes all the same.
export_all() {
    local format=$1 trace name expected status
    for trace in "$traces"/*.memledger; do
        name=$(basename "$trace" .memledger) expected=0 status=0
        [ "$name" != cut ] || expected=1
        "$memledger" export "$trace" --to "$format" -o "$out/$name.$format.json" 2>"$out/$name.err" || status=$?
        if [ "$status" != "$expected" ] || { [ "$expected" = 1 ] && [ ! -s "$out/$name.err" ]; }; then
            echo "exporting $trace to $format exited with $status, not $expected: $(cat "$out/$name.err")" >&2
            return 1
        fi
        "$memledger" report "$trace" --format json --allow-incomplete >"$out/$name.report.json" 2>/dev/null
    done
}

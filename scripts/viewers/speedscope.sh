#!/usr/bin/env bash
# Exports real traces to speedscope, validates the files with the schema of speedscope's own npm package, opens them in
# that speedscope in headless Chromium, looks at each view, and has speedscope export them again: the total weight of
# each profile, as speedscope has read it, is that of `memledger report`. Fetches speedscope. With $SCREENSHOTS, a folder, pictures of the pages are left there.
#
#     scripts/viewers/speedscope.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

VERSION=1.25.0
. scripts/viewers/record.sh
. scripts/viewers/helpers/browser.sh

package=${CARGO_TARGET_DIR:-target}/viewers/speedscope-$VERSION
if [ ! -d "$package" ]; then
    mkdir "$scratch/fetch"
    (cd "$scratch/fetch" && npm pack --silent "speedscope@$VERSION" >/dev/null)
    echo "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03  $scratch/fetch/speedscope-$VERSION.tgz" | sha256sum --quiet --check
    tar -xzf "$scratch/fetch/speedscope-$VERSION.tgz" -C "$scratch/fetch"
    mkdir -p "$(dirname "$package")"
    mv "$scratch/fetch/package" "$package"
fi

export_all speedscope
/usr/bin/python3 scripts/viewers/helpers/speedscope.py "$package" "$out" "${SCREENSHOTS:-$out}"

#!/usr/bin/env bash
# Exports real traces to DHAT's format, opens them in Valgrind's dh_view.html in headless Chromium, sorted in several
# ways, and compares the totals on the page with `memledger report`, to the byte and the block. With
# $SCREENSHOTS, a folder, pictures of the pages are left there.
#
#     scripts/viewers/dhat.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

. scripts/viewers/record.sh
. scripts/viewers/helpers/browser.sh

export_all dhat
/usr/bin/python3 scripts/viewers/helpers/dhat.py /usr/libexec/valgrind/dh_view.html "$out" "${SCREENSHOTS:-$out}"

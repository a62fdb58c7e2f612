# What the scripts of this folder share; they source it from the project's root. `folder` is theirs, for one run.

# Prints the program that cargo has built from a file, by what cargo wrote to $folder/built.
built() { realpath "$root/$(sed -n "s|^ *Executable .*$1 (\(.*\))\$|\1|p" "$folder/built")"; }

# need PROGRAM PACKAGE...: what runs, and the packages that have it.
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }

# ready SYSTEM TARGET: ends the script, and says why, if something that it needs is not installed, or the compiler lacks the
# target and rustup cannot install it.
ready() {
    if [ ${#missing[@]} -gt 0 ]; then
        echo "SKIPPED: nothing runs on $1, since not all is installed (apt-get install ${missing[*]})" >&2
        exit 0
    fi
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$2" ] && ! timeout 300 rustup target add "$2"; then
        echo "SKIPPED: nothing runs on $1, since the target $2 cannot be installed" >&2
        exit 0
    fi
}

# not_there LIST ALL THERE >FILE: the tests that do not run, each with its reason. LIST is a file like not_on_windows.txt, ALL
# has the tests of this machine, THERE those of the other one. Fails, and names them, if some that are not there have no reason.
not_there() {
    awk -v all="$2" -v there="$3" '
        /^# / { reason = text == "" ? substr($0, 3) : reason " " substr($0, 3); text = reason; next }
        /^$/ { text = ""; next }
        { text = ""; because[$0] = reason }
        END {
            while ((getline name < all) > 0) names[name] = 1
            while ((getline name < there) > 0) { names[name] = 1; is_there[name] = 1 }
            for (name in names) {
                theme = name; sub(/::.*/, "::", theme)
                reason = name in because ? because[name] : theme in because ? because[theme] : ""
                if (reason != "") print name "\t" reason
                else if (!(name in is_there)) { print name >"/dev/stderr"; failed = 1 }
            }
            if (failed) print "FAILED: these tests are not there, and this list has no reason: " FILENAME >"/dev/stderr"
            exit failed
        }' "$1"
}

# documented TEXT: fails if docs/platforms.md does not say this, on one line or two.
documented() {
    if ! tr '\n' ' ' <"$root/docs/platforms.md" | grep -qF -- "$1"; then
        echo "FAILED: docs/platforms.md does not say: $1" >&2
        exit 1
    fi
}

# passed: how many tests have passed, by what cargo's harness wrote to $folder/output.
passed() { sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$folder/output"; }

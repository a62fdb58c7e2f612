//! Traces of Unreal Engine 4 as a user of the command meets them.

use memledger_test_support::command::{ran, told};
use memledger_test_support::memledger;
use memledger_test_support::unreal4::{
    AUX, Cut, IMPORTANT, Streams, TEXT, Type, U8, U32, U64, U64_ARRAY,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    told(ran(memledger!(args)))
}

/// What a command prints without complaint.
fn out(args: &[&str]) -> String {
    let (status, out, err) = run(args);
    assert_eq!((status, err.as_str()), (0, ""), "{args:?}");
    out
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&out(&[args, &["--format", "json"]].concat())).expect("JSON")
}

fn sample(name: &str) -> String {
    format!("{}/../tests/samples/unreal4/{name}.utrace", env!("CARGO_MANIFEST_DIR"))
}

/// Writes a trace of Unreal Engine 4.26 that has values of tags at 1, 2 ... `values` seconds, and nothing
/// else. `by_attachment`: the names are in attachments, as in the first form of these events.
fn only_tags(file: &str, values: u64, by_attachment: bool) -> String {
    let new_trace: Type<'_> = (5, "$Trace.NewTrace", 4, &[("Serial", U32)]);
    let timing: Type<'_> = (6, "$Trace.Timing", 0, &[("StartCycle", U64), ("CycleFrequency", U64)]);
    let (flags, tag_fields, tracker_fields): (_, &[_], &[_]) = match by_attachment {
        true => (IMPORTANT, &[("TagId", U64), ("ParentId", U64)], &[("TrackerId", U8)]),
        false => (
            IMPORTANT | AUX,
            &[("TagId", U64), ("ParentId", U64), ("Name", TEXT)],
            &[("TrackerId", U8), ("Name", TEXT)],
        ),
    };
    let tag: Type<'_> = (7, "LLM.TagsSpec", flags, tag_fields);
    let tracker: Type<'_> = (8, "LLM.TrackerSpec", flags, tracker_fields);
    let fields = &[("TrackerId", U8), ("Cycle", U64), ("Tags", U64_ARRAY), ("Values", U64_ARRAY)];
    let value: Type<'_> = (9, "LLM.TagValue", AUX, fields);
    let mut streams = Streams::new(b"ECRT", 3, 4, 3);
    for declared in [&new_trace, &timing, &tag, &tracker, &value] {
        streams.declare(0, declared);
    }
    streams.event(0, &new_trace, &[0; 4], &[], &[], 0);
    let times = [1000_u64, 10].map(u64::to_le_bytes).concat();
    streams.event(0, &timing, &times, &[], &[], 0);
    for (id, parent, name) in [(1_u64, u64::MAX, "Total"), (2, 1, "Meshes"), (3, 1, "Textures")] {
        let fixed = [id, parent].map(u64::to_le_bytes).concat();
        if by_attachment {
            let wide: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            streams.event(1, &tag, &fixed, &[&wide[..], &[0, 0]].concat(), &[], 0);
        } else {
            streams.event(1, &tag, &fixed, &[], &[(2, name.as_bytes())], 0);
        }
    }
    match by_attachment {
        true => streams.event(1, &tracker, &[1], b"Default\0", &[], 0),
        false => streams.event(1, &tracker, &[1], &[], &[(1, b"Default")], 0),
    }
    for second in 1..=values {
        let at = (1000 + 10 * second).to_le_bytes();
        let second = second as i64;
        // The meshes shrink from 3 MiB to below 0, the textures rise to 8 MiB in the third second.
        let bytes = [(4 << 20) + second, (4 - second) << 20, (8 * i64::from(second == 3)) << 20];
        let ids = [1_u64, 2, 3].map(u64::to_le_bytes).concat();
        let bytes = bytes.map(i64::to_le_bytes).concat();
        let fixed = [&[1][..], &at].concat();
        streams.event(1 + second as usize % 2, &value, &fixed, &[], &[(2, &ids), (3, &bytes)], 0);
    }
    let cuts = [0, 1, 2].map(|stream| Cut { stream, size: 70, is_lz4: stream == 2 });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::write(&path, streams.file(&cuts)).expect("the folder for tests can be written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_report_of_tags_alone_has_their_values_and_says_so() {
    let trace = only_tags("only-tags.utrace", 5, false);
    let text = out(&["report", &trace]);
    let (head, table) = text.split_once("\n\n").expect("a table");
    assert_eq!(
        head,
        "Memory of an unnamed program, 5.00 s, complete, nothing lost\n  \
         no blocks    this trace has no single allocations, only the values of 3 memory\n               \
         tags that the engine itself counted (LLM)"
    );
    assert_eq!(
        table.lines().collect::<Vec<_>>(),
        [
            "Memory tags of the engine (LLM)    at end     peak  peak at     least    first",
            "  Total > Textures                    0 B  8.0 MiB   3.00 s       0 B      0 B",
            "  Total                           4.0 MiB  4.0 MiB   5.00 s   4.0 MiB  4.0 MiB",
            "  Total > Meshes                 -1.0 MiB  3.0 MiB   1.00 s  -1.0 MiB  3.0 MiB",
            "  a wider text also has: values",
        ]
    );
    assert!(out(&["report", &trace, "--width", "100"]).contains("first  values\n"));
    let filtered = out(&["report", &trace, "--filter", "meshes", "--top", "1"]);
    assert!(filtered.contains("Total > Meshes") && !filtered.contains("Textures"), "{filtered}");
    assert!(
        out(&["info", &trace])
            .contains("memory      values of the engine's memory tags (LLM), no single")
    );
}

#[test]
fn json_has_each_tag_with_its_series() {
    let trace = only_tags("tags.utrace", 5, false);
    let report = json(&["report", &trace]);
    assert_eq!(report["trace"]["memory_recorded"], false);
    assert_eq!(report["totals"]["allocations"], 0);
    let tags = report["llm_tags"].as_array().expect("tags");
    let paths: Vec<_> = tags.iter().map(|tag| tag["path"].clone()).collect();
    assert_eq!(paths, [json!(["Total"]), json!(["Total", "Textures"]), json!(["Total", "Meshes"])]);
    let second = 1_000_000_000_u64;
    assert_eq!(
        tags[2],
        json!({
            "tracker": "Default", "path": ["Total", "Meshes"], "samples": 5,
            "first_bytes": 3 << 20, "first_at_ns": second,
            "last_bytes": -1 << 20, "last_at_ns": 5 * second,
            "min_bytes": -1 << 20, "min_at_ns": 5 * second,
            "peak_bytes": 3 << 20, "peak_at_ns": second,
            "series": {
                "at_ns": [second, 2 * second, 3 * second, 4 * second, 5 * second],
                "bytes": [3 << 20, 2 << 20, 1 << 20, 0, -1 << 20],
            },
        })
    );
    // The first form has the names in attachments.
    let old = json(&["report", &only_tags("old-tags.utrace", 5, true)]);
    assert_eq!(old["llm_tags"], report["llm_tags"]);
    let old = json(&["report", &only_tags("many-tags.utrace", 3000, false)]);
    assert!(old["llm_tags"][0]["series"]["bytes"].as_array().expect("points").len() <= 65);
}

#[test]
fn the_values_at_a_time_are_the_last_before_it() {
    let trace = only_tags("tags-at.utrace", 5, false);
    let value = |at: &str, tag: usize| {
        let report = json(&["report", &trace, "--at", at]);
        let tag = &report["llm_tags"][tag];
        (tag["path"].clone(), tag["last_bytes"].clone(), tag["samples"].clone())
    };
    assert_eq!(value("3.5s", 0), (json!(["Total", "Textures"]), json!(8 << 20), json!(3)));
    assert_eq!(value("3.5s", 2), (json!(["Total", "Meshes"]), json!(1 << 20), json!(3)));
    assert_eq!(value("50%", 1), (json!(["Total", "Meshes"]), json!(2 << 20), json!(2)));
    let then = out(&["report", &trace, "--at", "3.5s"]);
    assert!(then.contains("(LLM)     then     peak"), "{then}");
}

#[test]
fn a_trace_with_both_shows_blocks_and_tags() {
    for name in ["p4-tid-ue426", "p4-tid-trc2"] {
        let text = out(&["report", &sample(name)]);
        assert!(text.contains("live at end") && !text.contains("no blocks"), "{text}");
        assert!(text.contains("\nMemory tags of the engine (LLM)"), "{text}");
        let report = json(&["report", &sample(name)]);
        let expected = Path::new(&sample(name)).with_extension("expected.json");
        let expected: Value =
            serde_json::from_slice(&fs::read(expected).expect("a file")).expect("JSON");
        let last = &expected["last_of_type"]["LLM.TagValue"]["fields"];
        let first = &expected["first_of_type"]["LLM.TagValue"][0]["fields"];
        let samples = &expected["events"]["LLM.TagValue"]["normal"];
        for (tag, path) in ["Total", "Meshes", "Textures"].into_iter().enumerate() {
            let path = if tag == 0 { json!(["Total"]) } else { json!(["Total", path]) };
            let tags = report["llm_tags"].as_array().expect("tags");
            let found = tags.iter().find(|found| found["path"] == path).expect("the tag");
            assert_eq!(found["tracker"], "Default");
            assert_eq!(found["last_bytes"], last["Values"][tag], "{name}");
            assert_eq!(found["first_bytes"], first["Values"][tag], "{name}");
            assert_eq!(found["samples"], *samples, "{name}");
        }
    }
    let old = json(&["report", &sample("p3-tid")]);
    assert!(old.get("llm_tags").is_none() && old["trace"]["memory_recorded"].is_null());
}

#[test]
fn a_page_says_what_the_trace_does_not_have() {
    let trace = only_tags("tags-page.utrace", 3, false);
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tags.html");
    out(&["report", &trace, "-o", page.to_str().expect("UTF-8")]);
    assert!(fs::metadata(&page).expect("the page").len() > 100_000);
}

/// Each event with an attachment that the expectation lists is printed with it.
#[test]
fn events_are_printed_with_their_attachments() {
    for name in ["p0-raw", "p0-packet", "p1-tid", "p2-tid", "p3-tid", "p4-tid-trc2", "p4-tid-ue426"]
    {
        let trace = sample(name);
        let printed = json(&["events", &trace]);
        let printed = printed["events"].as_array().expect("a list");
        let text = out(&["events", &trace]);
        let expected = Path::new(&trace).with_extension("expected.json");
        let expected: Value =
            serde_json::from_slice(&fs::read(expected).expect("a file")).expect("JSON");
        let mut attached = 0;
        for (name, events) in expected["first_of_type"].as_object().expect("events") {
            for event in events.as_array().expect("a list") {
                let Some(hex) = event["attachment"].as_str() else { continue };
                let attachment = format!(" attachment={hex}");
                let of_type = || printed.iter().filter(|printed| printed["name"] == *name);
                let first = of_type().next();
                assert!(of_type().any(|printed| printed["attachment"] == *hex), "{hex}: {first:?}");
                let has = |line: &str| line.contains(&**name) && line.ends_with(&attachment);
                assert!(text.lines().any(has), "{name} with {hex}");
                attached += 1;
            }
        }
        assert!(attached > 5, "{name}: {attached}");
    }
}

#[test]
fn no_later_protocol_can_carry_it() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("never.utrace");
    let target = target.to_str().expect("UTF-8");
    let (status, _, err) = run(&["export", &sample("p3-tid"), "--to", "utrace", "-o", target]);
    assert_eq!(status, 1);
    assert!(err.contains("no later protocol can carry") && !err.contains("written"), "{err}");
}

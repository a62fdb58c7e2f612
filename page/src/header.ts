// The program, what is missing of its trace, and the totals.

import type { Resident } from "./document";
import { byId, el, fill } from "./dom";
import { METRICS } from "./figures";
import type { Overview } from "./messages";
import { change, state, watch } from "./state";
import { bytes, count, percent, sentence, time, visible } from "./text";

/** How the words for the completeness of the figures look. */
const BADGES = {
  complete: ["good", "The trace has its end, no event is missing, and all memory is in a block", "complete"],
  complete_for: ["", "Blocks are complete; of other memory, see below", "complete for blocks"],
  incomplete: ["bad", "Something is missing, see below", "incomplete"],
} as const;

export function showHeader({ trace, moment }: Overview): void {
  const program = visible(trace.program || "the program");
  byId("program").textContent = program;
  const facts = [
    trace.pid != null && `pid ${trace.pid}`,
    `ran ${time(trace.duration_ns)}`,
    `${count(trace.events)} events`,
    moment && `as it was at ${visible(moment)}`,
    trace.from_process_start === false && "recorded from later on",
  ];
  const [look, title, word] = BADGES[trace.coverage.word];
  const badge = el("span", { class: `badge ${look}`, title }, word);
  fill(byId("facts"), ...facts.map((fact) => fact && el("span", {}, fact)), badge);
}

const LOSSES: [string, string][] = [
  ["lost_events", "events that are missing"],
  ["serial_holes", "holes in the order of events"],
  ["unmatched_frees", "frees of blocks that are not in the trace"],
  ["duplicate_allocations", "blocks that were allocated over others"],
  ["truncated_bytes", "bytes of the trace that could not be read"],
  ["scope_misuses", "scopes misused: left out of order, or never"],
  ["stacks_over_frame_limit", "stacks that are cut at the frame limit"],
  ["stacks_without_unwind_information", "stacks that end for lack of unwind information"],
  ["stacks_unreadable", "stacks that end in memory that could not be read"],
  ["stacks_in_changed_libraries", "stacks that end at a library that came or went"],
  ["stacks_guessed", "stacks that are a guess beyond code without unwind information ([frame pointer])"],
  ["stacks_cut", "stacks without their inner frames, because the memory for stacks is limited"],
  ["stacks_other", "stacks that were not kept, because their number is limited"],
];

/** Sentences about the figures, and what is counted as lost: where the figures are, above them. */
export function showNotes({ trace, totals, losses, notes, after_report }: Overview): void {
  const lines = notes.map((note) => visible(note));
  // As in the text, stacks that lack frames are said from 1 % of all on.
  const fewStacks = ((totals.allocations ?? 0) + (totals.reallocations ?? 0)) / 100;
  const lost = LOSSES.filter(([key]) => losses[key]! > (key.startsWith("stacks_") && key !== "stacks_other" ? fewStacks : 0));
  const counts = lost.map(([key, text]) => `${text}: ${count(losses[key]!)}`);
  if (losses.lost_events === null) counts.unshift("an unknown number of events is missing");
  if (after_report.allocations) counts.push(`allocations after the report: ${count(after_report.allocations)}`);
  const isBad = trace.coverage.word === "incomplete" || losses.lost_events === null || Boolean(losses.lost_events);
  const section = byId("notes");
  section.hidden = !lines.length && !counts.length && !isBad;
  section.className = isBad ? "bad" : "";
  if (isBad && !lines.length) lines.push("not whole: the figures are of what there is of the trace");
  fill(
    section,
    el("strong", {}, isBad ? "These figures are not of the whole run" : "To know about these figures"),
    lines.length > 0 && el("ul", {}, ...lines.map((line) => el("li", {}, sentence(line)))),
    counts.length > 0 && el("p", {}, `Counted: ${counts.join("; ")}.`),
  );
}

/** The resident memory as the sum of its parts, as in the text report: a line below the other totals. */
function resident({ all, when, parts, rest }: Resident): HTMLElement {
  return el(
    "div",
    { class: "tile wide" },
    el("span", { class: "name" }, "resident (RSS)"),
    el("span", { class: "figure" }, all),
    el("span", { class: "note" }, visible(`${when} = ${parts}; ${rest}`)),
  );
}

const blocks = (number: number) => `${count(number)} ${number === 1 ? "block" : "blocks"}`;

/** The totals. A click shows the figure in the graph. */
export function showTiles({ totals, trace, moment, resident: rss }: Overview): void {
  const of = (key: string) => totals[key] ?? 0;
  const perSecond = trace.duration_ns ? of("allocations") / (trace.duration_ns / 1e9) : 0;
  const tiles: [string, string, string, string, string | null][] = [
    ["live", moment ? `live at ${visible(moment)}` : "live at the end", bytes(of("live_bytes")), blocks(of("live_blocks")), "live_bytes"],
    ["peak", "peak", bytes(of("peak_bytes")), `${blocks(of("blocks_at_peak"))}, at\u00a0${time(of("peak_bytes_at_ns")).replaceAll(" ", "\u00a0")}`, "peak_bytes"],
    ["allocated", "allocated", bytes(of("allocated_bytes")), `${percent(of("peak_bytes"), of("allocated_bytes"))} of it live at the peak`, "allocated_bytes"],
    ["count", "count", count(of("allocations")), `allocations, ${count(perSecond)} per second`, "allocations"],
    ["", "reallocations", count(of("reallocations")), `${percent(of("reallocations"), of("reallocations") + of("allocations"))} of all calls that allocate`, null],
    ["", "frees", count(of("frees")), `${percent(of("short_lived"), of("allocations"))} of all blocks short-lived`, null],
  ];
  if (totals.overhead_bytes != null) {
    tiles.push(["", "tracker itself", bytes(of("overhead_bytes")), "not in the other figures", null]);
  }
  const made = tiles.map(([metric, name, figure, note, key]) => {
    const inside = [el("span", { class: "name" }, name), el("span", { class: "figure" }, figure), el("span", { class: "note" }, note)];
    const title = key ? `${count(of(key))} ${key.replaceAll("_", " ")}` : undefined;
    if (!metric) return el("div", { class: "tile" }, ...inside);
    const about = METRICS.find(({ name }) => name === metric)!.about;
    return el(
      "button",
      { class: `tile ${metric}`, type: "button", "data-metric": metric, title: `${about}: ${title}`, onclick: () => change({ metric }) },
      ...inside,
    );
  });
  fill(byId("tiles"), ...made, rss && resident(rss));
  const update = () => made.forEach((tile) => tile.dataset.metric && tile.setAttribute("aria-pressed", String(tile.dataset.metric === state.metric)));
  watch(["metric"], update);
  update();
}

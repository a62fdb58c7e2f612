// Who has most of the peak, which accuses nobody, and what was found.

import { byId, el, fill } from "./dom";
import type { Caller, Finding, Place } from "./document";
import type { Link, Overview } from "./messages";
import { change } from "./state";
import { percent, sentence, short, visible } from "./text";

/** By what a finding is a share of: its colour, of what costs time. Other findings are of memory that is held. */
const OF_TIME: Record<string, string> = { calls: "count", allocated_bytes: "allocated" };

const OF: Record<string, string> = {
  allocated_bytes: "of all allocated bytes", peak_bytes: "of the peak", calls: "of all calls", resident_memory: "of the resident memory",
};

type Follow = (link: Link) => void;

export function showFindings({ peakBy, findings, noneFound, hasStacks }: Overview, follow: Follow): void {
  const section = byId("findings");
  section.hidden = !findings && !peakBy;
  if (section.hidden) return;
  const [most, ...next] = (peakBy ? [peakBy, ...(peakBy.next ?? [])] : []).map((set) => card({ ...set, heading: "Peak by", weight_of: "peak_bytes", of_sample: false, suggestion: "" }, hasStacks, follow));
  const cards = (findings ?? []).map((finding) => card(finding, hasStacks, follow));
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "findings-title" }, "Facts and findings")),
    el(
      "div",
      { class: "cards", tabindex: "0" },
      el("ol", { "aria-label": "Facts and findings" }, ...(most ? [most] : []), ...cards, ...next),
      ...(findings && !cards.length ? [el("p", { class: "empty" }, visible(sentence(noneFound)))] : []),
    ),
  );
}

function card(finding: Omit<Finding, "kind">, hasStacks: boolean, follow: Follow): HTMLElement {
  const { place } = finding;
  const colour = OF_TIME[finding.weight_of] ?? "peak";
  // The outermost scope is the whole program.
  const scope = (place.path.length > 1 ? place.path.slice(1) : place.path).join(" > ");
  const tag = place.name && place.name !== "Unnamed" ? [...(place.group ?? []), place.name].join(" / ") : "";
  const name = place.function ?? (tag || scope || "the program");
  const show = () => {
    if (place.function && hasStacks) change({ by: "stack", pivot: -1, focus: [], search: place.function, direction: "down" });
    else follow({ by: "scope", focus: place.path });
  };
  const where = (of: (name: string) => string) => [...functions(place, of), place.function && place.path.length > 1 ? `in ${of(scope)}` : "", tag && place.function ? of(tag) : "", place.thread ? `thread ${of(place.thread)}` : ""].filter(Boolean);
  return el(
    "li",
    { class: `card ${colour}` },
    el("p", { class: "kind" }, el("b", {}, visible(finding.heading)), ` ${percent(finding.weight_millionths, 1e6)} ${OF[finding.weight_of] ?? `of ${finding.weight_of.replaceAll("_", " ")}`}${finding.of_sample ? ", of the sample" : ""}`),
    el("h3", {}, el("button", { type: "button", title: `Show in the graph: ${visible(name)}`, onclick: show }, el("bdi", {}, short(name)))),
    el("p", { class: "source", title: where(visible).join("\n") }, el("bdi", {}, where(short).join(" "))),
    el("p", {}, visible(sentence(finding.evidence))),
    ...(finding.suggestion ? [el("p", { class: "suggestion" }, visible(sentence(finding.suggestion)))] : []),
  );
}

/** The lines of a place, its callers with theirs, and the shares where no function has all. */
function functions({ file, lines, callers, shares }: Place, of: (name: string) => string): string[] {
  const caller = ({ function: name, ...at }: Caller) => [`< ${of(name)}`, source(at.file, at.lines)].filter(Boolean).join(" ");
  const share = ({ function: name, millionths }: Place["shares"][number]) => `${percent(millionths, 1e6)} ${of(name)}`;
  return [source(file, lines), shares.map(share).join(", "), ...callers.map(caller)];
}

const source = (file: string | null, lines: number[]) => (file ? visible([shortPath(file), ...lines].join(":")) : "");

/** A path from the folder above its innermost `src` on, or its last two parts, as in the text report. */
const shortPath = (path: string) => (/^(?:.*\/)?([^/]*\/src\/.*)$/.exec(path) ?? /^(?:.*\/)?([^/]*\/[^/]*)$/.exec(path))?.[1].replace(/^\.?\//, "") ?? path;

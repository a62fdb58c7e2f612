// What to look at first.

import { byId, el, fill } from "./dom";
import type { Finding } from "./document";
import type { Link, Overview } from "./messages";
import { change } from "./state";
import { percent, short, visible } from "./text";

const KINDS: Record<string, [string, string]> = {
  grows: ["grows step by step", "allocated"], reallocates: ["reallocates often", "allocated"], short_lived: ["short-lived", "count"],
  shrinks: ["gives back", "allocated"], left_behind: ["left behind", "live"], only_grows: ["only grows", "live"],
  one_size: ["many of one size", "peak"], rounds_up: ["rounds up", "peak"], freed_elsewhere: ["freed by other threads", "freed"],
};

const OF: Record<string, string> = {
  allocated_bytes: "of all allocated bytes", allocations: "of all allocations", peak_bytes: "of the peak", calls: "of all calls",
};

export function showFindings({ findings, hasStacks }: Overview, follow: (link: Link) => void): void {
  const section = byId("findings");
  section.hidden = !findings;
  if (!findings) return;
  const cards = findings.map((finding) => card(finding, hasStacks, follow));
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "findings-title" }, "What to look at first")),
    cards.length ? el("ol", { class: "cards", tabindex: "0", "aria-label": "Findings" }, ...cards) : el("p", { class: "empty" }, "Nothing that weighs 1 % of the program was found."),
  );
}

function card(finding: Finding, hasStacks: boolean, follow: (link: Link) => void): HTMLElement {
  const { place } = finding;
  const [kind, colour] = KINDS[finding.kind] ?? [finding.kind.replaceAll("_", " "), "freed"];
  const scope = place.path.join(" > ");
  const tag = place.name && place.name !== "Unnamed" ? [...(place.group ?? []), place.name].join(" / ") : "";
  const name = place.function ?? (tag || scope || "the program");
  const source = place.file ? shortPath(place.line ? `${place.file}:${place.line}` : place.file) : "";
  const show = () => {
    if (place.function && hasStacks) change({ by: "stack", pivot: -1, focus: [], search: place.function, direction: "down" });
    else follow({ by: "scope", focus: place.path });
  };
  const where = (of: (name: string) => string) => [visible(source), place.callers.slice(0, 2).map((caller) => `< ${of(caller)}`).join(" "), place.function && scope ? `in ${of(scope)}` : "", tag && place.function ? of(tag) : "", place.thread ? `thread ${of(place.thread)}` : ""].filter(Boolean);
  return el(
    "li",
    { class: `card ${colour}` },
    el("p", { class: "kind" }, el("b", {}, kind), ` ${percent(finding.weight_millionths, 1e6)} ${OF[finding.weight_of] ?? `of ${finding.weight_of.replaceAll("_", " ")}`}${finding.of_sample ? ", of the sample" : ""}`),
    el("h3", {}, el("button", { type: "button", title: `Show in the graph: ${visible(name)}`, onclick: show }, el("bdi", {}, short(name)))),
    el("p", { class: "source", title: where(visible).join("\n") }, el("bdi", {}, where(short).join(" "))),
    el("p", {}, visible(dotted(finding.evidence))),
    el("p", { class: "suggestion" }, visible(dotted(finding.suggestion))),
  );
}

const dotted = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

/** The last parts of a path: from the crate on. */
const shortPath = (path: string) => path.replace(/^.*\/registry\/src\/[^/]+\//, "").replace(/^\/rustc\/[^/]+\//, "").replace(/^\/(?:[^/]+\/)*(?=[^/]+\/[^/]+\/[^/]+$)/, "");

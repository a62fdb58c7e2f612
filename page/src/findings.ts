// What to look at first, and what is cheap to speed up.

import { byId, el, fill } from "./dom";
import type { Finding } from "./document";
import type { Link, Overview } from "./messages";
import { change } from "./state";
import { percent, sentence, short, visible } from "./text";

/** By what a finding is a share of: its colour, of what costs time. Other findings are of memory that is held. */
const OF_TIME: Record<string, string> = { calls: "count", allocations: "count", allocated_bytes: "allocated" };

const OF: Record<string, string> = {
  allocated_bytes: "of all allocated bytes", allocations: "of all allocations", peak_bytes: "of the peak", calls: "of all calls",
  resident_memory: "of the resident memory",
};

/** What holds memory comes before what costs time. */
const GROUPS: [string, (finding: Finding) => boolean][] = [
  ["Look at first", ({ weight_of }) => !(weight_of in OF_TIME)],
  ["Cheap to speed up", ({ weight_of }) => weight_of in OF_TIME],
];

export function showFindings({ findings, noneFound, hasStacks }: Overview, follow: (link: Link) => void): void {
  const section = byId("findings");
  section.hidden = !findings;
  if (!findings) return;
  const groups = GROUPS.map(([title, is]) => ({ title, cards: findings.filter(is).map((finding) => card(finding, hasStacks, follow)) }));
  const [first, ...rest] = groups.filter(({ cards }) => cards.length);
  const list = (title: string, cards: HTMLElement[]) => el("ol", { "aria-label": title }, ...cards);
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "findings-title" }, first?.title ?? "Findings")),
    first
      ? el("div", { class: "cards", tabindex: "0" }, list(first.title, first.cards), ...rest.flatMap(({ title, cards }) => [el("h2", {}, title), list(title, cards)]))
      : el("p", { class: "empty" }, visible(sentence(noneFound))),
  );
}

function card(finding: Finding, hasStacks: boolean, follow: (link: Link) => void): HTMLElement {
  const { place } = finding;
  const colour = OF_TIME[finding.weight_of] ?? "peak";
  // The outermost scope is the whole program.
  const scope = (place.path.length > 1 ? place.path.slice(1) : place.path).join(" > ");
  const tag = place.name && place.name !== "Unnamed" ? [...(place.group ?? []), place.name].join(" / ") : "";
  const name = place.function ?? (tag || scope || "the program");
  const source = place.file ? shortPath(place.line ? `${place.file}:${place.line}` : place.file) : "";
  const show = () => {
    if (place.function && hasStacks) change({ by: "stack", pivot: -1, focus: [], search: place.function, direction: "down" });
    else follow({ by: "scope", focus: place.path });
  };
  const where = (of: (name: string) => string) => [visible(source), place.callers.slice(0, 2).map((caller) => `< ${of(caller)}`).join(" "), place.function && place.path.length > 1 ? `in ${of(scope)}` : "", tag && place.function ? of(tag) : "", place.thread ? `thread ${of(place.thread)}` : ""].filter(Boolean);
  return el(
    "li",
    { class: `card ${colour}` },
    el("p", { class: "kind" }, el("b", {}, visible(finding.heading)), ` ${percent(finding.weight_millionths, 1e6)} ${OF[finding.weight_of] ?? `of ${finding.weight_of.replaceAll("_", " ")}`}${finding.of_sample ? ", of the sample" : ""}`),
    el("h3", {}, el("button", { type: "button", title: `Show in the graph: ${visible(name)}`, onclick: show }, el("bdi", {}, short(name)))),
    el("p", { class: "source", title: where(visible).join("\n") }, el("bdi", {}, where(short).join(" "))),
    el("p", {}, visible(sentence(finding.evidence))),
    el("p", { class: "suggestion" }, visible(sentence(finding.suggestion))),
  );
}

/** A path from the folder above its innermost `src` on, or its last two parts, as in the text report. */
const shortPath = (path: string) => (/^(?:.*\/)?([^/]*\/src\/.*)$/.exec(path) ?? /^(?:.*\/)?([^/]*\/[^/]*)$/.exec(path))?.[1].replace(/^\.?\//, "") ?? path;

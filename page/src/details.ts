// What is known of the part of the graph that is pointed at.

import { byId, el, fill } from "./dom";
import { COLUMNS, type Metric } from "./figures";
import type { Details } from "./messages";
import { figure, percent, short, visible } from "./text";

interface Actions {
  zoomTo(node: Details): void;
  onlyThis(node: Details, direction: "up" | "down"): void;
  filterTo(filter: { scope?: number; name?: number }): void;
  /** In server mode: the single blocks of a node. */
  blocks?(node: Details): void;
}

let actions: Actions;
let hasStacks = false;

export function setDetailActions(all: Actions): void {
  actions = { ...actions, ...all };
}

export function setBlockAction(blocks: (node: Details) => void): void {
  actions = { ...actions, blocks };
}

export function setHasStacks(has: boolean): void {
  hasStacks = has;
}

export function clearDetails(): void {
  fill(byId("details"), el("p", { class: "empty" }, "Point at a part of the graph to see its figures. Click to zoom in. ? lists the keys."));
}

export function showDetails(node: Details, metric: Metric, dataset: string): void {
  const { total, value } = node;
  const rows = Object.entries(node.figures).flatMap(([key, sum]) => {
    const [name, about] = COLUMNS[key] ?? [key.replaceAll("_", " "), ""];
    const isShown = key === metric.column;
    const own = node.own[key];
    return [
      el(
        "tr",
        { class: isShown ? "shown" : "", title: `${about}: ${Math.round(sum).toLocaleString("en-US")}` },
        el("th", { scope: "row" }, name),
        el("td", { "data-key": key }, figure(key, sum)),
        el("td", {}, own ? figure(key, own) : ""),
      ),
    ];
  });
  const hasOwn = Object.values(node.own).some((own) => own > 0);
  const parents = node.path.slice(1, -1).reverse().slice(0, 6);
  const button = (text: string, title: string, run: () => void) => el("button", { type: "button", title, onclick: run }, text);
  fill(
    byId("details"),
    el("h3", { title: visible(node.text) }, el("bdi", {}, short(node.text))),
    short(node.text) !== visible(node.text) && el("details", {}, el("summary", {}, "the whole name"), el("p", { class: "source" }, el("bdi", {}, visible(node.text)))),
    ...node.sources.map((source) => el("p", { class: "source" }, el("bdi", {}, visible(source)))),
    node.moreSources > 0 && el("p", { class: "source" }, `and ${node.moreSources} more lines`),
    el("p", { class: "share" }, el("strong", {}, figure(node.column, value)), ` ${metric.name}, ${percent(value, total)} of all`),
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, ""), el("th", { scope: "col" }, "with all inside"), el("th", { scope: "col" }, hasOwn ? "itself" : ""))),
      el("tbody", {}, ...rows),
    ),
    parents.length > 0 && el("p", { class: "path" }, "in ", ...parents.flatMap(({ text }, at) => [at ? " < " : "", el("bdi", { title: visible(text) }, short(text))])),
    el(
      "div",
      { class: "actions" },
      node.isFunction && button("callees", "What this function called, wherever it is", () => actions.onlyThis(node, "down")),
      node.isFunction && button("callers", "What called this function, wherever it is", () => actions.onlyThis(node, "up")),
      hasStacks && node.scope >= 0 && button("its stacks", "The call stacks of this scope only", () => actions.filterTo({ scope: node.scope })),
      hasStacks && node.name >= 0 && button("its stacks", "The call stacks of this name only", () => actions.filterTo({ name: node.name })),
      actions.blocks && dataset === "answer" && button("its blocks", "The single blocks, with their stacks and history", () => actions.blocks!(node)),
    ),
  );
}

// What has changed between two reports: a graph of the differences, and bars to the right for what grew, to the left for
// what shrank.

import { differenceGraph } from "./difference";
import { byId, choice, el, fill, inLine } from "./dom";
import type { Diff, DiffRow, Figures } from "./document";
import { COLUMNS } from "./figures";
import { figure, percent, short, visible } from "./text";

const SHOWN = ["live_bytes_at_peak", "live_bytes", "peak_bytes", "allocated_bytes", "allocations"];
const MOST_ROWS = 200;

export function showChanges(diff: Diff | null): void {
  const section = byId("changes");
  section.hidden = !diff;
  if (!diff) return;
  let by = diff.tables[0]?.by ?? "";
  let column = SHOWN[0];
  let search = "";
  const list = el("div", { class: "changes" });
  const graph = el("div", {});
  const bys = choice("Compared by", diff.tables.map((table) => [table.by, table.by] as const), () => by, (to) => ((by = to), draw()));
  const columns = choice("Figure compared", SHOWN.map((key) => [key, COLUMNS[key][0], COLUMNS[key][1]] as const), () => column, (to) => ((column = to), draw()));
  const find = el("input", { type: "search", placeholder: "Find rows", "aria-label": "Find rows of the comparison", oninput: () => ((search = find.value), draw()) });
  const draw = () => {
    bys.update();
    columns.update();
    fill(graph, graphOf(diff, by, column, (name) => ((search = find.value = name), draw())));
    fill(list, rows(diff, by, column, search.trim().toLowerCase()));
  };
  const { old, new: after } = diff;
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "changes-title" }, "What has changed"), el("span", { class: "sides" }, el("bdi", {}, visible(old.name)), " → ", el("bdi", {}, visible(after.name))), bys.element, columns.element, el("span", { class: "search" }, find)),
    totals(diff),
    graph,
    list,
  );
  draw();
}

function signed(key: string, change: number): string {
  return change === 0 ? "same" : `${change > 0 ? "+" : "−"}${figure(key, Math.abs(change))}`;
}

const colour = (change: number) => (change > 0 ? "grew" : change < 0 ? "shrank" : "");

function totals({ old, new: after }: Diff): HTMLElement {
  const keys: [string, string][] = [["live_bytes", "live at the end"], ["peak_bytes", "peak"], ["allocated_bytes", "allocated"], ["allocations", "count"], ["reallocations", "reallocations"]];
  const tiles = keys.map(([key, name]) => {
    const [from, to] = [old.totals[key] ?? 0, after.totals[key] ?? 0];
    const change = to - from;
    return el("div", { class: "tile" }, el("span", { class: "name" }, name), el("span", { class: `figure ${colour(change)}` }, signed(key, change)), el("span", { class: "note" }, `${figure(key, from)} → ${figure(key, to)}${change && from ? `, ${change > 0 ? "+" : "−"}${percent(Math.abs(change), from)}` : ""}`));
  });
  return el("div", { class: "tiles" }, ...tiles);
}

/** The graph of a table. Its rows are drawn by what is their own, so that nothing is drawn twice. */
function graphOf(diff: Diff, by: string, column: string, pick: (name: string) => void): HTMLElement | null {
  // Peaks are of different moments: they have no sum.
  if (column === "peak_bytes") return null;
  const table = diff.tables.find((one) => one.by === by);
  const changes = (table?.rows ?? []).map((row) => ({
    path: row.path,
    old: row.old?.[column] ?? 0,
    new: row.new?.[column] ?? 0,
  }));
  const graph = differenceGraph(changes, column, pick);
  const hint = "As wide as what differs; vermillion has grown, green has shrunk, paler where both happened inside. A click finds the rows.";
  return graph && el("div", {}, graph, el("p", { class: "hint" }, hint));
}

function rows(diff: Diff, by: string, column: string, search: string): HTMLElement {
  const table = diff.tables.find((one) => one.by === by);
  const of = (side: (Figures & { inclusive?: Figures }) | null) => side?.[column] ?? side?.inclusive?.[column] ?? 0;
  const named = (row: DiffRow, of: (name: string) => string) => (by === "stack" ? [...row.path].reverse().map(of).join(" < ") : row.path.map(of).join(" > "));
  const name = (row: DiffRow) => named(row, visible);
  const found = (table?.rows ?? []).flatMap((row) => {
    const change = of(row.new) - of(row.old);
    return change && (!search || name(row).toLowerCase().includes(search)) ? [{ row, change }] : [];
  });
  found.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  if (!found.length) return el("p", { class: "empty" }, search ? "No row that has changed has this in its name." : "No row has changed in this figure.");
  const most = Math.abs(found[0].change);
  const line = ({ row, change }: (typeof found)[number]) => {
    const [from, to] = [of(row.old), of(row.new)];
    const side = change > 0 ? "left:50%" : "right:50%";
    const state = row.old === null ? "new" : row.new === null ? "gone" : change > 0 ? "grew" : "shrank";
    return el(
      "tr",
      {},
      el("th", { scope: "row", title: name(row) }, inLine(short(named(row, short)))),
      el("td", { class: "bar-cell" }, el("i", { class: colour(change), style: `${side};width:${((50 * Math.abs(change)) / most).toFixed(1)}%` })),
      el("td", { class: colour(change) }, signed(column, change)),
      el("td", {}, row.old === null ? "new" : from ? `${change > 0 ? "+" : "−"}${percent(Math.abs(change), from)}` : ""),
      el("td", {}, figure(column, from)),
      el("td", {}, figure(column, to)),
      el("td", { class: "state" }, state),
    );
  };
  const head = ["name", "", "change", "in percent", "old", "new", ""].map((text) => el("th", { scope: "col" }, text));
  const more = found.length - MOST_ROWS;
  return el(
    "div",
    {},
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...found.slice(0, MOST_ROWS).map(line))),
    el("p", { class: "hint" }, `${table!.new} new, ${table!.gone} gone, ${table!.grown} grown, ${table!.shrunk} shrunk, ${table!.same} the same${more > 0 ? `; ${more} more with smaller changes` : ""}.`),
  );
}


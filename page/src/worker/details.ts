// What is known of one node of a graph.

import type { Details } from "../messages";
import type { Made } from "./layout";
import { isUnnamed, type Model } from "./model";
import type { Node } from "./nodes";

const MAX_SOURCES = 4;

export function details(model: Model, { layout, nodes, graph }: Made, number: number): Details | null {
  const node = nodes[number];
  if (!node) return null;
  const { forest, query } = graph;
  const { texts } = model.labels;
  const path: Details["path"] = [];
  for (let at: Node | null = node; at; at = at.parent) path.unshift({ label: at.label, text: texts[at.label] });
  const data = model.dataset(query.dataset);
  const figures: Record<string, number> = {};
  const own: Record<string, number> = {};
  const sum = (values: Float64Array) => node.items.reduce((total, item) => total + values[item], 0);
  for (const key of data.columns.keys()) {
    const sums = forest.sums(data, key, query.filter, model);
    const isUp = query.direction === "up" && query.pivot < 0;
    figures[key] = sum(isUp ? sums.own : sums.inclusive);
    own[key] = node.cursors ? 0 : sum(sums.own);
  }
  const sources = sourcesOf(model, graph.forest.frame, node);
  const names = path.slice(1).map(({ text }) => text);
  return {
    view: layout.view,
    node: number,
    path,
    text: texts[node.label],
    value: node.value,
    total: graph.total,
    column: query.column,
    figures,
    own,
    sources: sources.slice(0, MAX_SOURCES),
    moreSources: Math.max(sources.length - MAX_SOURCES, 0),
    scope: query.by === "scope" && query.direction === "down" ? scopeOf(model, names) : -1,
    name: query.by === "group" && query.direction === "down" ? nameOf(model, names) : -1,
    isFunction: query.by === "stack" && path.length > 1 && (forest.frame?.[(node.cursors ?? node.items)[0]] ?? -1) >= 0,
  };
}

/** `file:line` of each call that the node is. */
function sourcesOf(model: Model, frame: Int32Array | null, node: Node): string[] {
  if (!frame) return [];
  const sources = new Set<string>();
  for (const item of node.cursors ?? node.items) {
    const of = frame[item];
    const file = of >= 0 ? model.doc.strings[model.frames.file[of]] : "";
    if (file) sources.add(model.frames.line[of] ? `${file}:${model.frames.line[of]}` : file);
  }
  return [...sources];
}

const isSame = (a: string[], b: string[]) => a.length === b.length && a.every((name, at) => name === b[at]);

function scopeOf(model: Model, names: string[]): number {
  return model.doc.by_scope.findIndex(({ path = [] }) => isSame(path, names));
}

function nameOf(model: Model, names: string[]): number {
  return model.doc.by_name.findIndex(({ group = [], name = "" }) => isSame([...group, name], names));
}

/** The buckets that a node is the sum of. */
export function bucketsOf({ nodes, graph }: Made, number: number): number[] {
  const node = nodes[number];
  if (!node) return [];
  const { forest, query, model } = graph;
  const inside = new Uint8Array(forest.nodes);
  for (const item of node.items) inside[item] = 1;
  if (!(query.direction === "up" && query.pivot < 0)) {
    for (let at = 1; at < forest.nodes; at++) inside[at] |= inside[forest.parent[at]];
  }
  const mask = model.mask(query.filter);
  const found: number[] = [];
  forest.leaf.forEach((at, bucket) => inside[at] && (!mask || mask[bucket]) && found.push(bucket));
  return found;
}

/** Where a bucket is allocated: its functions, the innermost first, then its scopes and its name. */
export function stackOf(model: Model, bucket: number): string[] {
  const { doc, frames, stacks } = model;
  const names: string[] = [];
  for (let node = model.stack[bucket] ?? -1; node >= 0; node = stacks.parent[node]) {
    const frame = stacks.frame[node];
    const file = doc.strings[frames.file[frame]];
    if (!frames.folded[frame]) names.push(`${doc.strings[frames.name[frame]]}${file ? ` (${file}:${frames.line[frame]})` : ""}`);
  }
  const path = doc.by_scope[model.scope[bucket]]?.path ?? [];
  const { group = [], name = "" } = doc.by_name[model.name[bucket]] ?? {};
  return [...names, `in scope ${path.join(" > ")}`, ...(isUnnamed(group, name) ? [] : [`as ${[...group, name].join(" / ")}`])];
}

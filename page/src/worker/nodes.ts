// A graph, one level at a time: only what is wide enough to be seen is ever unfolded, so that its cost is that of what is
// on the screen.

import type { Query } from "../messages";
import type { Forest } from "./forest";
import type { Model } from "./model";

/** All occurrences of a name under one parent. */
export interface Node {
  label: number;
  parent: Node | null;
  value: number;
  /** Nodes of the forest; bottom-up, those that hold the figures. */
  items: number[];
  /** Bottom-up: how far towards the root each item has come. */
  cursors: number[] | null;
  children: Node[] | null;
}

export class Graph {
  readonly root: Node;
  readonly #values: Float64Array;
  readonly own: Float64Array;
  /** The sum of everything that passes the filter. */
  readonly total: number;

  constructor(
    readonly model: Model,
    readonly forest: Forest,
    readonly query: Query,
  ) {
    const { column, filter, direction, pivot } = query;
    const { own, inclusive } = forest.sums(model.dataset(query.dataset), column, filter, model);
    this.own = own;
    this.total = inclusive[0];
    const isUp = direction === "up";
    // Bottom-up, the callers of a function have what it allocated with all that it called.
    this.#values = isUp && pivot < 0 ? own : inclusive;
    if (pivot >= 0) {
      const items = this.#outermost(pivot);
      this.root = this.#node(pivot, null, items, isUp ? items : null);
    } else if (isUp) {
      const items: number[] = [];
      for (let node = 0; node < own.length; node++) if (own[node] > 0) items.push(node);
      this.root = { label: forest.label[0], parent: null, value: this.total, items, cursors: null, children: null };
      this.root.children = this.#group(items, items, (cursor) => cursor, this.root);
    } else this.root = this.#node(forest.label[0], null, [0], null);
  }

  /** Nodes with this name that are in no other one with it. */
  #outermost(label: number): number[] {
    const { forest } = this;
    const inside = new Uint8Array(forest.nodes);
    const found: number[] = [];
    for (let node = 1; node < forest.nodes; node++) {
      const isOne = forest.label[node] === label;
      if (isOne && !inside[forest.parent[node]]) found.push(node);
      inside[node] = Number(isOne || inside[forest.parent[node]]);
    }
    return found;
  }

  #node(label: number, parent: Node | null, items: number[], cursors: number[] | null): Node {
    let value = 0;
    for (const item of items) value += this.#values[item];
    return { label, parent, value, items, cursors, children: null };
  }

  children(node: Node): Node[] {
    node.children ??= this.#unfold(node);
    return node.children;
  }

  #unfold(node: Node): Node[] {
    const { forest } = this;
    if (node.cursors) return this.#group(node.items, node.cursors, (cursor) => forest.parent[cursor], node);
    const items: number[] = [];
    for (const item of node.items) {
      for (let at = forest.start[item]; at < forest.start[item + 1]; at++) {
        const child = forest.children[at];
        if (this.#values[child] > 0) items.push(child);
      }
    }
    return this.#group(items, null, (item) => item, node);
  }

  /** Groups items by the name of what `step` leads to, in the order of their first appearance. */
  #group(items: number[], cursors: number[] | null, step: (at: number) => number, parent: Node): Node[] {
    const byLabel = new Map<number, Node>();
    for (let at = 0; at < items.length; at++) {
      const to = step(cursors ? cursors[at] : items[at]);
      if (to <= 0) continue;
      const label = this.forest.label[to];
      let node = byLabel.get(label);
      if (!node) {
        node = { label, parent, value: 0, items: [], cursors: cursors ? [] : null, children: null };
        byLabel.set(label, node);
      }
      node.items.push(items[at]);
      node.cursors?.push(to);
      node.value += this.#values[items[at]];
    }
    const nodes = [...byLabel.values()];
    // PERF: a forest is in the order of first appearance already.
    return this.query.order === "heavy" ? nodes.sort((a, b) => b.value - a.value) : nodes;
  }

  /** The node that the names lead to, as far as they do. */
  focus(path: number[]): Node {
    let node = this.root;
    for (const label of path) {
      const next = this.children(node).find((child) => child.label === label);
      if (!next) break;
      node = next;
    }
    return node;
  }

  /** By name: whether it is searched for; null if nothing is. */
  matches(): Uint8Array | null {
    const wanted = this.query.search.trim().toLowerCase();
    if (!wanted) return null;
    const { texts } = this.model.labels;
    const matches = new Uint8Array(texts.length);
    const used = new Uint8Array(texts.length);
    for (const label of this.forest.label) {
      if (used[label]) continue;
      used[label] = 1;
      matches[label] = Number(texts[label].toLowerCase().includes(wanted));
    }
    matches[this.forest.label[0]] = 0;
    return matches;
  }

  /** The sum over everything with a match on its path. */
  matched(matches: Uint8Array): number {
    const { forest, own } = this;
    const inside = new Uint8Array(forest.nodes);
    let sum = 0;
    for (let node = 1; node < forest.nodes; node++) {
      inside[node] = inside[forest.parent[node]] | matches[forest.label[node]];
      if (inside[node]) sum += own[node];
    }
    return sum;
  }
}

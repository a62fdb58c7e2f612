// Trees of names, and the sums over them. A forest is made once for each thing to group by; node 0 is its root, and a
// parent comes before its children.

import type { By, Filter } from "../messages";
import { isUnnamed, type Dataset, type Model } from "./model";

export class Forest {
  /** By node: where its children begin in `children`. */
  readonly start: Int32Array;
  readonly children: Int32Array;
  readonly #sums = new Map<string, { own: Float64Array; inclusive: Float64Array }>();

  constructor(
    readonly parent: Int32Array,
    readonly label: Int32Array,
    /** By bucket: its node. */
    readonly leaf: Int32Array,
    /** By node: an index of `frames`, or -1. */
    readonly frame: Int32Array | null = null,
    /** By node: whether it is of a library. */
    readonly library: Uint8Array | null = null,
  ) {
    const nodes = parent.length;
    this.start = new Int32Array(nodes + 1);
    for (let node = 1; node < nodes; node++) this.start[parent[node] + 1] += 1;
    for (let node = 0; node < nodes; node++) this.start[node + 1] += this.start[node];
    const next = this.start.slice();
    this.children = new Int32Array(Math.max(nodes - 1, 0));
    for (let node = 1; node < nodes; node++) this.children[next[parent[node]]++] = node;
  }

  get nodes(): number {
    return this.parent.length;
  }

  /** By node: the sum of a column over its own buckets, and over all inside it, too. */
  sums(data: Dataset, key: string, filter: Filter, model: Model): { own: Float64Array; inclusive: Float64Array } {
    const name = JSON.stringify([data.name, key, filter.thread, filter.scope, filter.name]);
    const known = this.#sums.get(name);
    if (known) return known;
    // Of a large trace each has some megabytes.
    if (this.#sums.size > 40) this.#sums.clear();
    const column = data.column(key);
    const mask = model.mask(filter);
    const own = new Float64Array(this.nodes);
    for (let bucket = 0; bucket < column.length; bucket++) {
      if (!mask || mask[bucket]) own[this.leaf[bucket]] += column[bucket];
    }
    const inclusive = own.slice();
    for (let node = this.nodes - 1; node > 0; node--) inclusive[this.parent[node]] += inclusive[node];
    const sums = { own, inclusive };
    this.#sums.set(name, sums);
    return sums;
  }

  forget(dataset: string): void {
    for (const name of this.#sums.keys()) if (JSON.parse(name)[0] === dataset) this.#sums.delete(name);
  }
}

/** Makes a forest of paths that are added one by one. */
class Growing {
  readonly parent = [-1];
  readonly label: number[];
  readonly #known = new Map<number, number>();

  constructor(root: number) {
    this.label = [root];
  }

  child(parent: number, label: number): number {
    const key = parent * 2 ** 26 + label;
    let node = this.#known.get(key);
    if (node === undefined) {
      node = this.parent.push(parent) - 1;
      this.label.push(label);
      this.#known.set(key, node);
    }
    return node;
  }

  forest(leaf: Int32Array): Forest {
    return new Forest(Int32Array.from(this.parent), Int32Array.from(this.label), leaf);
  }
}

const NO_STACK = "(no stack)";
const NOT_IN_SAMPLE = "(not in the sample)";
const NO_CRATE = "(no crate)";

export class Forests {
  readonly #made = new Map<string, Forest>();
  /** By frame: the label of its function with the line. */
  readonly #lines: Int32Array;

  constructor(readonly model: Model) {
    // A link to a view has the numbers of names: so all are numbered in one order, whatever is looked at first.
    for (const text of [NO_STACK, NOT_IN_SAMPLE, NO_CRATE]) model.labels.number(text);
    for (const by of ["scope", "group", "thread"] as const) this.get(by, true);
    const { name, line } = model.frames;
    const { labels } = model;
    this.#lines = Int32Array.from(name, (of, frame) => (line[frame] ? labels.number(`${labels.texts[of]}:${line[frame]}`) : of));
  }

  /** `lines`: each line of a function in a stack for itself. */
  get(by: By, allFrames: boolean, lines = false): Forest {
    const key = /stack|crate/.test(by) ? `${by} ${allFrames} ${lines}` : by;
    let forest = this.#made.get(key);
    if (!forest) {
      forest = by === "stack" ? this.#stacks(allFrames, lines) : by === "crate" ? this.#crates(allFrames) : this.#named(by);
      this.#made.set(key, forest);
    }
    return forest;
  }

  forget(dataset: string): void {
    for (const forest of this.#made.values()) forest.forget(dataset);
  }

  get #root(): number {
    return this.model.labels.number(this.model.doc.trace.program || "the program");
  }

  /** Scopes with the names in them, groups with the names in them, or threads with their scopes. */
  #named(by: By): Forest {
    const { model } = this;
    const { by_scope, by_name, by_thread } = model.doc;
    const growing = new Growing(this.#root);
    const add = (node: number, path: string[]) =>
      path.reduce((parent, name) => growing.child(parent, model.labels.number(name)), node);
    const scopeAt = (number: number) => by_scope[number]?.path ?? [];
    const tail = (number: number) => {
      const { group = [], name = "" } = by_name[number] ?? {};
      return isUnnamed(group, name) ? [] : [[...group, name].join(" / ")];
    };
    const leaf = new Int32Array(model.buckets);
    const known = new Map<string, number>();
    for (let bucket = 0; bucket < leaf.length; bucket++) {
      const [scope, name, thread] = [model.scope[bucket], model.name[bucket], model.thread[bucket]];
      const key = `${by === "group" ? "" : scope} ${by === "thread" ? thread : name}`;
      let node = known.get(key);
      if (node === undefined) {
        if (by === "scope") node = add(0, [...scopeAt(scope), ...tail(name)]);
        else if (by === "thread") node = add(0, [threadName(by_thread[thread]), ...scopeAt(scope)]);
        else {
          const { group = [], name: last = "" } = by_name[name] ?? {};
          node = add(0, isUnnamed(group, last) ? group : [...group, last]);
        }
        known.set(key, node);
      }
      leaf[bucket] = node;
    }
    return growing.forest(leaf);
  }

  /** The tree of the document, with a root, and with a node for blocks that have no stack. */
  #stacks(allFrames: boolean, lines: boolean): Forest {
    const { model } = this;
    const { stacks, frames, labels } = model;
    const inDocument = stacks.parent.length;
    const [parent, label, frame] = [0, 1, 2].map(() => new Int32Array(inDocument + 2).fill(-1));
    const library = new Uint8Array(inDocument + 2);
    label[0] = this.#root;
    // By node of the document: its node here. A folded call is at the node of its caller.
    const at = new Int32Array(inDocument);
    let nodes = 1;
    for (let node = 0; node < inDocument; node++) {
      const [of, caller] = [stacks.frame[node], stacks.parent[node]];
      const under = caller < 0 ? 0 : at[caller];
      at[node] = under;
      if (frames.folded[of] && !allFrames) continue;
      at[node] = nodes;
      parent[nodes] = under;
      label[nodes] = lines ? this.#lines[of] : frames.name[of];
      frame[nodes] = of;
      library[nodes] = frames.folded[of];
      nodes += 1;
    }
    const leaf = model.stack.map((node) => (node < 0 ? -1 : at[node]));
    if (leaf.includes(-1)) {
      parent[nodes] = 0;
      label[nodes] = labels.number(model.doc.stack_sampling_bytes ? NOT_IN_SAMPLE : NO_STACK);
      leaf.forEach((node, bucket) => node < 0 && (leaf[bucket] = nodes));
      nodes += 1;
    }
    const cut = (column: Int32Array) => column.slice(0, nodes);
    return new Forest(cut(parent), cut(label), leaf, cut(frame), library.slice(0, nodes));
  }

  /** Stacks with the functions of a crate that follow each other as one level. */
  #crates(allFrames: boolean): Forest {
    const stacks = this.get("stack", allFrames);
    const growing = new Growing(stacks.label[0]);
    const other = this.model.labels.number(NO_CRATE);
    const at = new Int32Array(stacks.nodes);
    for (let node = 1; node < stacks.nodes; node++) {
      const under = at[stacks.parent[node]];
      const frame = stacks.frame![node];
      const crate = frame < 0 ? stacks.label[node] : this.model.frames.crate[frame];
      const label = this.model.labels.texts[crate] ? crate : other;
      at[node] = growing.label[under] === label && under ? under : growing.child(under, label);
    }
    return growing.forest(stacks.leaf.map((node) => at[node]));
  }
}

export function threadName(row: { id?: number; name?: string } | undefined): string {
  if (!row) return "other threads";
  return row.name ? `${row.name} (${row.id})` : `thread ${row.id}`;
}

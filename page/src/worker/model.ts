// The document in the form that views are made from: columns of numbers by bucket, and names by number.

import type { PageDocument } from "../document";
import type { Answer, Filter } from "../messages";
import { indices, numbers } from "./decode";

/** Names by number. Those of the document keep its numbers, so that they mean the same in each page of it. */
export class Labels {
  readonly #numbers = new Map<string, number>();

  constructor(readonly texts: string[]) {
    texts.forEach((text, number) => this.#numbers.has(text) || this.#numbers.set(text, number));
  }

  number(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.texts.push(text) - 1;
      this.#numbers.set(text, number);
    }
    return number;
  }
}

/** Figures by bucket: those of the report, or of an answer to a question about it. */
export class Dataset {
  constructor(
    readonly name: string,
    readonly columns: Map<string, Float64Array>,
  ) {}

  column(key: string): Float64Array {
    return this.columns.get(key) ?? this.columns.values().next().value ?? new Float64Array(0);
  }
}

export const FIGURES = [
  "live_bytes", "live_blocks", "live_bytes_at_peak", "live_blocks_at_peak", "allocated_bytes", "allocations",
  "reallocations", "frees", "short_lived",
];

export class Model {
  readonly labels: Labels;
  readonly scope: Int32Array;
  readonly name: Int32Array;
  readonly thread: Int32Array;
  readonly stack: Int32Array;
  readonly report: Dataset;
  /** Nodes of the document: the node that called each, or -1, and its frame. */
  readonly stacks: { parent: Int32Array; frame: Int32Array };
  readonly frames: Record<"name" | "file" | "line" | "crate" | "folded", Int32Array>;
  answer: Dataset | null = null;

  constructor(readonly doc: PageDocument) {
    this.labels = new Labels(doc.strings.slice());
    const { buckets } = doc;
    this.scope = indices(buckets.scope);
    this.name = indices(buckets.name);
    this.thread = indices(buckets.thread);
    this.stack = indices(buckets.stack);
    const keys = FIGURES.filter((key) => buckets[key] !== undefined);
    this.report = new Dataset("report", new Map(keys.map((key) => [key, numbers(buckets[key])])));
    this.stacks = { parent: indices(doc.stacks.parent), frame: indices(doc.stacks.frame) };
    const { name, file, line, crate, folded } = doc.frames;
    this.frames = { name: indices(name), file: indices(file), line: indices(line), crate: indices(crate), folded: indices(folded) };
  }

  get buckets(): number {
    return this.scope.length;
  }

  get hasStacks(): boolean {
    return this.stack.some((node) => node >= 0);
  }

  dataset(name: string): Dataset {
    return name === "answer" && this.answer ? this.answer : this.report;
  }

  /** Takes the answer of a server: figures of some of the buckets of this document. */
  setAnswer(answer: Answer | null): void {
    if (!answer) {
      this.answer = null;
      return;
    }
    const { bucket, ...figures } = answer.buckets;
    const columns = Object.entries(figures).map(([key, values]): [string, Float64Array] => {
      const column = new Float64Array(this.buckets);
      bucket.forEach((number, at) => (column[number] += values[at]));
      return [key, column];
    });
    this.answer = new Dataset("answer", new Map(columns));
  }

  /** By bucket: whether it passes the filter. Null: all do. */
  mask(filter: Filter): Uint8Array | null {
    const keys = (["thread", "scope", "name"] as const).filter((key) => filter[key] !== undefined);
    if (!keys.length) return null;
    const mask = new Uint8Array(this.buckets).fill(1);
    const inside = filter.scope === undefined ? null : this.#scopesInside(filter.scope);
    for (let bucket = 0; bucket < mask.length; bucket++) {
      if (filter.thread !== undefined && this.thread[bucket] !== filter.thread) mask[bucket] = 0;
      if (filter.name !== undefined && this.name[bucket] !== filter.name) mask[bucket] = 0;
      if (inside && !inside.has(this.scope[bucket])) mask[bucket] = 0;
    }
    return mask;
  }

  #scopesInside(scope: number): Set<number> {
    const outer = this.doc.by_scope[scope]?.path ?? [];
    const isInside = (path: string[] = []) => outer.every((name, at) => path[at] === name);
    return new Set(this.doc.by_scope.flatMap((row, number) => (isInside(row.path) ? [number] : [])));
  }
}

/** Whether a row of `by_name` is what has no name. */
export const isUnnamed = (group: string[] = [], name = "") => name === "Unnamed" && group[0] === "Unknown";

// The page's side of what answers: a worker, or, for a small document, a part of this script.

import type { Overview, Request } from "./messages";
import { answer, loadNow } from "./worker/answer";

const waiting = new Map<number, { resolve: (result: any) => void; reject: (error: Error) => void }>();
let last = 0;
let worker: Worker | null = null;
let isHere = false;

/** The script of the page, which is that of the worker, too: a page that is one file has nowhere else to load it from. */
const source = document.currentScript!.textContent!;

/** Reads a document that is small enough to be shown at once; from then on, answers come without a worker. */
export function loadHere(base64: string): Overview {
  isHere = true;
  return loadNow(base64);
}

function started(): Worker {
  if (worker) return worker;
  worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id)!;
    waiting.delete(data.id);
    if (data.error === undefined) resolve(data.result);
    else reject(new Error(data.error));
  };
  worker.onerror = (event) => {
    for (const { reject } of waiting.values()) reject(new Error(event.message || "The worker of the page has failed."));
    waiting.clear();
  };
  return worker;
}

export async function ask<Result>(request: Request): Promise<Result> {
  if (isHere) return answer(request) as Result;
  return new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    const transfer = request.do === "load" && request.json ? [request.json] : [];
    started().postMessage({ id: last, request }, transfer);
  });
}

/** Asks one after the other, and only the newest of those that wait. */
export function latest<Result>(done: (result: Result) => void): (request: Request) => void {
  let isBusy = false;
  let next: Request | null = null;
  const run = async (request: Request) => {
    isBusy = true;
    const result = await ask<Result>(request);
    isBusy = false;
    if (next) {
      const newer = next;
      next = null;
      void run(newer);
    } else done(result);
  };
  return (request) => {
    if (isBusy) next = request;
    else void run(request);
  };
}

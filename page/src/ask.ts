// The page's side of the worker.

import source from "worker:source";
import type { Request } from "./messages";

const waiting = new Map<number, { resolve: (result: any) => void; reject: (error: Error) => void }>();
let last = 0;
let worker: Worker | null = null;

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

export function ask<Result>(request: Request): Promise<Result> {
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

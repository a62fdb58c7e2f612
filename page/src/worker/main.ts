// The worker: answers on a thread of its own.

import type { Request } from "../messages";
import { answer } from "./answer";

onmessage = async ({ data }: MessageEvent<{ id: number; request: Request }>) => {
  try {
    postMessage({ id: data.id, result: await answer(data.request) });
  } catch (error) {
    postMessage({ id: data.id, error: error instanceof Error ? error.message : String(error) });
  }
};

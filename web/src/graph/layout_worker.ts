// The page's side of the layout of graphs.
import { openWorker } from "../worker.ts";
import type { GraphAnswer, GraphRequest } from "./layout_answer.ts";

export class LayoutWorker {
  private readonly worker = openWorker();
  private last = 0;

  constructor(onAnswer: (answer: GraphAnswer) => void) {
    this.worker.onmessage = ({ data }: MessageEvent<GraphAnswer>) => {
      if (data.id === this.last) onAnswer(data); // older ones were overtaken
    };
  }

  ask(request: Omit<GraphRequest, "id">): void {
    this.last += 1;
    this.worker.postMessage({ id: this.last, ...request });
  }

  stop(): void {
    this.worker.terminate();
  }
}

// What is computed beside the page's own thread: the layout of a graph, and patterns, which may take for ever.
import { answerGraph, type GraphRequest } from "./graph/layout_answer.ts";
import { answerPatterns, type PatternRequest } from "./patterns.ts";

addEventListener("message", ({ data }: MessageEvent<GraphRequest | PatternRequest>) => {
  postMessage("patterns" in data ? answerPatterns(data) : answerGraph(data));
});

// A client with types that openapi-typescript generated from /openapi.json:
// list, pause, snapshots, decisions. Starting and resuming have their places once the API has them.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };
const [, , baseUrl = "", token = "", name = ""] = process.argv;

const client = createClient<paths>({
  baseUrl,
  headers: { Authorization: `Bearer ${token}` },
});

type Problem = components["schemas"]["Problem"];

function need<T>(answer: { data?: T; error?: Problem }): T {
  if (answer.error !== undefined) {
    throw new Error(`${answer.error.code}: ${answer.error.detail}`);
  }
  return answer.data as T;
}

const page = need(await client.GET("/api/v1/sessions", { params: { query: { status: "running" } } }));
const line = page.items.find((it) => it.name === name);
if (line === undefined) {
  throw new Error(`${name} is not running`);
}

const workflow = { session: line.session };
const paused = need(
  await client.POST("/api/workflows/{session}/pause", {
    params: { path: workflow },
    body: { reason: "the generated client asks" },
  }),
);
const list = need(
  await client.GET("/api/workflows/{session}/snapshots", { params: { path: workflow } }),
);
const checkpoint = paused.snapshot_id ?? "";
const decisions = need(
  await client.GET("/api/workflows/{session}/snapshots/{checkpoint}/{part}", {
    params: { path: { ...workflow, checkpoint, part: "decisions" } },
  }),
);
console.log(
  JSON.stringify({
    status: paused.status,
    snapshot: paused.snapshot_id,
    newest: list.snapshots[0]?.id,
    decisions,
  }),
);

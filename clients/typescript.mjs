/**
 * The official SDK for TypeScript, 1.x and 2.x: `node typescript.mjs FOLDER PLAN`, FOLDER being where the SDK is installed.
 *
 * Plays the steps of `scenario.py`, in its order and with its names; the two majors differ in the first section only.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const STEP_LIMIT_MS = 15_000;
const PROMPT_MS = 2_000;
const UNUSUAL_TEXT = "h\u00e9 \u6f22 \u{1f389} a\u2028b\u2029c\u0085d \"\\ \t\n end";
const STRUCTURED = new Set(["2025-06-18", "2025-11-25", "2026-07-28"]);
const PROGRESS_MESSAGES = new Set([...STRUCTURED, "2025-03-26"]);
const TOOLS = ["echo", "text-stats", "sparkline", "slow-count", "chat"];
const INDEX = "colabhive://manifest";
const INFO = { name: "colabhive-clients", version: "1.0.0" };

// --- the two majors ---------------------------------------------------------------------------------------------

const folder = resolve(process.argv[2]);
const plan = JSON.parse(readFileSync(process.argv[3], "utf8"));
const load = createRequire(join(folder, "package.json"));

/** The SDK that is installed in the folder: its label, its classes, its client for this plan, its call. */
function loadSdk() {
  return folder.endsWith("-1") ? loadFirst() : loadSecond();
}

function loadFirst() {
  const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  return {
    label: `@modelcontextprotocol/sdk ${readVersion("sdk")}`,
    StdioClientTransport,
    StreamableHTTPClientTransport,
    build: (options) => new Client(INFO, options),
    call: (client, params, options) => client.callTool(params, undefined, options),
    revision: (client, negotiated) => negotiated,
  };
}

function loadSecond() {
  const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
  const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");
  const negotiation = {
    auto: { versionNegotiation: { mode: "auto" } },
    legacy: {},
  }[plan.mode] ?? { supportedProtocolVersions: [plan.mode] };
  return {
    label: `@modelcontextprotocol/client ${readVersion("client")}`,
    StdioClientTransport,
    StreamableHTTPClientTransport,
    build: (options) => new Client(INFO, { ...negotiation, ...options }),
    call: (client, params, callOptions) => client.callTool(params, callOptions),
    revision: (client) => client.getNegotiatedProtocolVersion(),
  };
}

function readVersion(name) {
  const path = join(folder, "node_modules", "@modelcontextprotocol", name, "package.json");
  return JSON.parse(readFileSync(path, "utf8")).version;
}

const sdk = loadSdk();

/** A connected client; `strays` are messages that the SDK could not place, `hear` is called at each change of the tools. */
async function connect(target) {
  const session = { strays: [], hear: () => {} };
  const tools = { autoRefresh: false, debounceMs: 0, onChanged: () => session.hear() };
  const client = sdk.build({ listChanged: { tools } });
  client.onerror = (error) => session.strays.push(String(error?.message ?? error));
  const transport = buildTransport(target);
  const setVersion = transport.setProtocolVersion?.bind(transport);
  let negotiated;
  transport.setProtocolVersion = (version) => {
    negotiated = version;
    setVersion?.(version);
  };
  await client.connect(transport);
  return Object.assign(session, { client, revision: sdk.revision(client, negotiated) });
}

/** The transport for a server that the client starts, or for one that is reached over HTTP. */
function buildTransport({ command, environment, url, headers }) {
  return url === undefined
    ? new sdk.StdioClientTransport({ command: command[0], args: command.slice(1), env: environment })
    : new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
}

/** A call in plain values. */
async function call(session, name, args, options = {}) {
  const result = await sdk.call(session.client, { name, arguments: args }, options);
  const blocks = (type) => result.content.filter((block) => block.type === type);
  return {
    isError: result.isError === true,
    texts: blocks("text").map((block) => block.text),
    images: blocks("image").map((block) => Buffer.from(block.data, "base64")),
    structured: result.structuredContent,
  };
}

// --- the steps --------------------------------------------------------------------------------------------------

const STEPS = [
  ["list", listTools],
  ["call", callEcho],
  ["call with structured content", callStructured],
  ["call with an image", callImage],
  ["call of a schema with definitions", callDefs],
  ["failing call", callWrong],
  ["call of an unknown tool", callUnknown],
  ["calls at once", callTogether],
  ["cancel of a slow call", cancelSlow],
  ["call after the cancel", callAfterCancel],
  ["slow call with progress", callSlow],
  ["manifests as resources", readManifest],
  ["read of what is not there", readNothing],
  ["list again", listTools],
  ["nothing unexpected arrived", checkStrays],
];

/** What happens to the server while the session lasts. */
const CUED_STEPS = [
  ["change of the tools", hearChange],
  ...(plan.restarts ? [["call after a restart", outliveRestart]] : []),
];

async function playSession() {
  return inSession(async (session) => {
    await report("connect", () => checkRevision(session));
    for (const [name, step] of [...STEPS, ...CUED_STEPS]) {
      await report(name, () => within(step(session)));
    }
  });
}

/** The user is told in good time, by some words about the key or by the status of HTTP. */
async function comeWithWrongKey() {
  const outcome = await knock().catch((error) => error);
  ensure(outcome instanceof Error, `listed ${show(outcome)}`);
  const words = show(outcome);
  ensure(/API key|\b401\b/.test(words), `was told ${words}`);
  return words.slice(0, 200);
}

async function knock() {
  const session = await connect(plan.refused);
  try {
    return await session.client.listTools();
  } finally {
    await session.client.close();
  }
}

async function leaveBusy() {
  return inSession(async (session) => {
    call(session, "slow-count", { to: 200, interval: 0.5 }).catch(() => {});
    await within(call(session, "echo", { text: "read after the slow call" }));
  });
}

/** Connect, work, close; how long the closing took. */
async function inSession(work) {
  const session = await connect(plan.server);
  let started;
  try {
    await work(session);
  } finally {
    started = performance.now();
    await session.client.close();
  }
  return `closed in ${((performance.now() - started) / 1000).toFixed(2)} s`;
}

async function checkRevision(session) {
  ensure(session.revision === plan.revision, `negotiated ${session.revision}, not ${plan.revision}`);
  const name = session.client.getServerVersion()?.name ?? "";
  ensure(name.includes("colabhive"), `the server calls itself ${name}`);
  return `${sdk.label} negotiated ${session.revision}`;
}

async function listTools(session) {
  const names = (await session.client.listTools()).tools.map((tool) => tool.name);
  ensure(TOOLS.every((name) => names.includes(name)), `tools are ${names}`);
  return `${names.length} tools`;
}

async function callEcho(session) {
  const outcome = await call(session, "echo", { text: UNUSUAL_TEXT });
  ensure(!outcome.isError && outcome.texts.includes(UNUSUAL_TEXT), `answered ${show(outcome)}`);
}

/** Where the revision has structured content, the SDK itself checks it against the output schema. */
async function callStructured(session) {
  const outcome = await call(session, "text-stats", { text: "one two\nthree" });
  ensure(!outcome.isError && outcome.texts.length > 0, `answered ${show(outcome)}`);
  const hasObject = typeof outcome.structured === "object";
  ensure(hasObject === STRUCTURED.has(session.revision), `structured content is ${show(outcome.structured)}`);
}

async function callImage(session) {
  const outcome = await call(session, "sparkline", { values: [1, 3, 2, 5, 4] });
  ensure(!outcome.isError && outcome.images.length === 1, `answered ${show(outcome)}`);
  ensure(outcome.images[0].subarray(1, 4).toString() === "PNG", "the image is no PNG");
  return `${outcome.images[0].length} bytes`;
}

async function callDefs(session) {
  const outcome = await call(session, "chat", { messages: [{ role: "user", content: "Hello" }] });
  ensure(!outcome.isError && outcome.texts.some((text) => text !== ""), `answered ${show(outcome)}`);
}

async function callWrong(session) {
  const outcome = await call(session, "echo", {});
  ensure(outcome.isError && outcome.texts.some((text) => text.includes("text")), `answered ${show(outcome)}`);
  return outcome.texts[0].replaceAll(/\s+/g, " ").slice(0, 120);
}

async function callUnknown(session) {
  const refused = await call(session, "no-such-tool", {}).catch((error) => error);
  ensure(refused?.code === -32602, `answered ${show(refused)}`);
  return String(refused.message).slice(0, 100);
}

async function callTogether(session) {
  const texts = Array.from({ length: 8 }, (_, number) => `call ${number}`);
  const outcomes = await Promise.all(texts.map((text) => call(session, "echo", { text })));
  ensure(outcomes.every((outcome, at) => outcome.texts[0] === texts[at]), `answered ${show(outcomes)}`);
  return `${texts.length} calls`;
}

/** The job is short, so that the steps after this one outlast it: a late reply would be seen as a stray. */
async function cancelSlow(session) {
  const running = await startSlow(session, { to: 4, interval: 0.3 });
  running.stop.abort("the user stopped it");
  const finished = await running.settled;
  ensure(finished instanceof Error, `the call was answered: ${show(finished)}`);
}

async function callAfterCancel(session) {
  const started = performance.now();
  const outcome = await call(session, "echo", { text: "still here" });
  const took = performance.now() - started;
  ensure(outcome.texts.includes("still here") && took < PROMPT_MS, `answered ${show(outcome)} after ${took} ms`);
  // Progress may cross the cancellation on its way; after the answer to a later request, nothing may come.
  session.strays = session.strays.filter((stray) => !stray.includes("notifications/progress"));
  return `${took.toFixed(0)} ms`;
}

async function callSlow(session) {
  const seen = [];
  const outcome = await call(session, "slow-count", { to: 6, interval: 0.4 }, { onprogress: (one) => seen.push(one) });
  ensure(!outcome.isError && outcome.texts.some((text) => text.includes("6")), `answered ${show(outcome)}`);
  const values = seen.map((one) => one.progress);
  ensure(values.length > 0, "no progress was notified");
  ensure(values.every((value, at) => at === 0 || values[at - 1] < value), `progress is ${values}`);
  const hasMessages = PROGRESS_MESSAGES.has(session.revision);
  ensure(seen.every((one) => Boolean(one.message) === hasMessages), `messages are wrong: ${show(seen)}`);
  return `${seen.length} notifications, the last: ${seen.at(-1).message ?? seen.at(-1).progress}`;
}

/** The index leads to each tool's manifest; its slug is completed. */
async function readManifest(session) {
  const listed = (await session.client.listResources()).resources.map((resource) => resource.uri);
  ensure(show(listed) === show([INDEX]), `the resources are ${listed}`);
  const index = JSON.parse(await read(session, INDEX));
  const entry = index.tools.find((tool) => tool.slug === "echo");
  const manifest = JSON.parse(await read(session, entry.uri));
  ensure(manifest.name === "echo" && manifest.inputSchema, `read ${show(manifest)}`);
  const ref = { type: "ref/resource", uri: `${INDEX}/{slug}` };
  const { completion } = await session.client.complete({ ref, argument: { name: "slug", value: "ec" } });
  ensure(show(completion.values) === show(["echo"]), `completed to ${show(completion)}`);
  return `${index.tools.length} entries`;
}

async function readNothing(session) {
  const refused = await read(session, `${INDEX}/no-such-tool`).catch((error) => error);
  ensure([-32002, -32602].includes(refused?.code), `answered ${show(refused)}`);
  return String(refused.message).slice(0, 100);
}

async function read(session, uri) {
  const { contents } = await session.client.readResource({ uri });
  return contents[0].text;
}

async function checkStrays(session) {
  ensure(session.strays.length === 0, `messages that no request waits for: ${session.strays}`);
}

/** Other clients have tools made too: the one that counts is this client's own. */
async function hearChange(session) {
  let heard = 0;
  let wake = () => {};
  session.hear = () => {
    heard += 1;
    wake();
  };
  const slug = await cue("publish");
  for (;;) {
    const before = heard;
    const names = (await session.client.listTools()).tools.map((tool) => tool.name);
    if (before && names.includes(slug)) return `heard ${before}, and listed ${slug}`;
    if (heard === before) await new Promise((resolveWake) => (wake = resolveWake));
  }
}

/** The server keeps nothing of a session that the client would miss. */
async function outliveRestart(session) {
  await cue("restart");
  const outcome = await call(session, "echo", { text: "after the restart" });
  ensure(outcome.texts.includes("after the restart"), `answered ${show(outcome)}`);
  return listTools(session);
}

/** Have something happen; the word that it is answered with. */
async function cue(name) {
  const answer = await fetch(`${plan.cues}/${name}`, { method: "POST" });
  const word = await answer.text();
  ensure(answer.ok, word);
  return word;
}

/** A running call of the slow tool, from its first progress on; `settled` never rejects. */
async function startSlow(session, args) {
  const stop = new AbortController();
  let settled;
  const begun = new Promise((resolveBegun) => {
    settled = call(session, "slow-count", args, { signal: stop.signal, onprogress: () => resolveBegun("begun") });
  });
  settled = settled.catch((error) => error);
  const first = await Promise.race([begun, settled]);
  ensure(first === "begun", `the call ended before any progress: ${show(first)}`);
  return { stop, settled };
}

// --- reporting --------------------------------------------------------------------------------------------------

async function report(step, work) {
  try {
    writeStep(step, true, (await work()) ?? "");
  } catch (error) {
    writeStep(step, false, `${error?.name}: ${error?.message ?? error}`.slice(0, 600));
  }
}

function writeStep(step, passed, note) {
  process.stdout.write(JSON.stringify({ step, passed, note }) + "\n");
}

/** The work within the bound of a step. */
async function within(work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${STEP_LIMIT_MS} ms`)), STEP_LIMIT_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function ensure(condition, otherwise) {
  if (!condition) throw new Error(otherwise);
}

function show(value) {
  return value instanceof Error ? `${value.name}: ${value.message}` : JSON.stringify(value);
}

await report("a whole session", playSession);
await report("a wrong key", () => within(comeWithWrongKey()));
await report("close while a call runs", leaveBusy);

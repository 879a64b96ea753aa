// The page of an emulator: shows what the commands below /emulator/ return, and sends them.
//
// Whatever comes from there, ids and references too, is put into the page as text only.
"use strict";

const POLL = 500; // milliseconds from one look at the emulator to the next
const MOST_ROWS = 200; // of the table of requests
const MOST_DRAWN = 480; // windows of the picture
const MOST_LISTED = 1000; // applications, of one command and of one page of the list
const FEW = 8; // applications at first
const BARS = 152;
const FEW_DAYS = 5 * 86400;

const byId = (id) => document.getElementById(id);
const count = (number) => Number(number).toLocaleString("en");
const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const listOf = (value) => (Array.isArray(value) ? value : []);
const entriesOf = (value) => (value && typeof value === "object" ? Object.entries(value) : []);
const plain = (time) => String(time).replace("T", " ");
const words = (name) => String(name ?? "").replaceAll("_", " ");
const secondOf = (time) => Date.parse(`${time}Z`) / 1000;
const timeOf = (second) => new Date(second * 1000).toISOString().slice(0, 19);
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function element(name, look, ...children) {
  const made = document.createElement(name);
  if (look) made.className = look;
  made.append(...children); // strings become text
  return made;
}

// Show something that was read, and leave the page alone where it is what is shown already.
const shown = new Map();

function show(id, value, draw) {
  const text = JSON.stringify(value);
  if (shown.get(id) === text) return;
  shown.set(id, text);
  byId(id).replaceChildren(...draw(value));
}

// Commands

class RefusedError extends Error {}

const read = (name, query = {}) => send("GET", `${name}?${new URLSearchParams(query)}`);
const change = (name, body = {}) => send("POST", name, JSON.stringify(body));

async function send(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const reply = await fetch(`/emulator/${path}`, {
    method, headers, body, cache: "no-store", credentials: "omit", redirect: "error",
  });
  if (reply.ok) return reply.json();
  const { error, message } = await reply.json().catch(() => ({}));
  if (reply.status === 401 || error === "control_token_needed") askForToken(error, message);
  throw new RefusedError(message || `status ${reply.status}`);
}

function askForToken(error, message) {
  const why = error === "control_token_needed" ? `Refused: ${message}.`
    : "This emulator is controlled with a token, the one in its INCOME_EMULATOR_TOKEN.";
  byId("access-why").textContent =
    sessionStorage.getItem("token") ? "This token was refused." : why;
  sessionStorage.removeItem("token");
  if (!byId("access").hidden) return;
  byId("access").hidden = false;
  document.querySelector("main").hidden = true;
  byId("token").focus();
}

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value);
  byId("token").value = "";
  byId("access").hidden = true;
  document.querySelector("main").hidden = false;
  refresh();
});

// Look at the emulator again and again, one look at a time

let state = null;
let entries = []; // of the journal
let last = 0; // number of the latest of them
let histogram = null;
let known = ""; // state of the applications that are shown
let isConnected = false;
let looking = Promise.resolve();

const refresh = () => (looking = looking.then(look));

async function poll() {
  for (;;) {
    if (byId("access").hidden) await refresh();
    await pause(POLL);
  }
}

async function look() {
  let text = "Connected: requests show as they come.";
  try {
    await readAll();
    isConnected = true;
  } catch (error) {
    isConnected = false;
    text = !byId("access").hidden ? "Not connected."
      : error instanceof RefusedError ? `Refused: ${error.message}. Trying again.`
        : "The emulator has ended or cannot be reached. Trying again.";
  }
  byId("connection").className = isConnected ? "small quiet" : "alarm";
  show("connection", text, () => [text]);
}

async function readAll() {
  const before = state;
  state = await read("state");
  // Another emulator may run at this address by now.
  if (state.files_url !== before?.files_url || state.last_request < last) {
    [entries, last, known] = [[], 0, ""];
    await showCommands();
  }
  while (last < state.last_request) {
    const more = await read("requests", { after: last, limit: MOST_LISTED });
    if (!more.length) break; // they were cleared just now
    entries.push(...more);
    last = more.at(-1).id;
  }
  entries = entries.filter((entry) => entry.id >= state.first_request);
  showState();
  showFaults(state.faults ? await read("faults") : []);
  const span = Number(byId("shown").value);
  const moves = span || state.rules.visibility_delay ? state.service_time : "";
  const now = JSON.stringify([state.applications, state.last_update, state.rules, span, moves]);
  if (now !== known) {
    const end = secondOf(state.service_time) + 1;
    const bounds = { updated_after: timeOf(end - span), updated_before: timeOf(end) };
    histogram = await read("histogram", { buckets: BARS, ...(span ? bounds : {}) });
    await search();
    known = now;
  }
  drawPicture();
  showRequests();
}

function showState() {
  byId("time").textContent = plain(state.service_time);
  byId("count").textContent = count(state.applications);
  byId("requests").textContent = count(sum(Object.values(state.requests)));
  byId("callbacks-go").textContent = state.callbacks_url
    ? `Callbacks go to ${state.callbacks_url}.`
    : "Callbacks go nowhere: start income-client emulate with --callbacks.";
}

async function showCommands() {
  const variables = { ...await read("environment"), INCOME_BASE_URL: location.origin };
  const lines = Object.entries(variables).map(([name, text]) => `export ${name}=${text}`);
  byId("commands").textContent = [...lines, "income-client applications --quiet"].join("\n");
}

function showFaults(faults) {
  show("faults", faults, () => faults.map((fault) => {
    const about = fault.application_id ? ` of ${fault.application_id}` : "";
    const parts = [`${fault.call ?? "every request"}${about}: ${fault.status ?? fault.kind}`];
    if (fault.rate !== null) parts.push(`${Math.round(100 * fault.rate)} % of them`);
    if (fault.requests_left !== null) parts.push(`${count(fault.requests_left)} left`);
    if (fault.requests_to_skip) parts.push(`after ${count(fault.requests_to_skip)}`);
    if (fault.seconds !== null) parts.push(`for ${fault.seconds} s`);
    return element("li", "", parts.join(", "));
  }));
}

// Requests

const failed = ({ status, fault }) => status !== 200 || (fault !== null && fault !== "trickle");
// A request for one application is no window, and one for a single row asks for the time.
const isWindow = ({ page }) => page && !page.by_reference && page.limit !== 1;

function outcomeOf(entry) {
  if (failed(entry)) return "failed";
  return entry.page.full ? "full" : entry.page.rows ? "covered" : "empty";
}

function windowText({ asked, applied }) {
  const text = (window) =>
    `${plain(window.updated_after ?? "…")} to ${plain(window.updated_before ?? "…")}`;
  const differs = applied && ["updated_after", "updated_before"].some(
    (name) => asked[name] !== null && asked[name] !== applied[name],
  );
  return text(asked) + (differs ? ` (applied: ${text(applied)})` : "");
}

const statusText = ({ status, fault }) =>
  (status || "no reply") + (fault && fault !== "status" ? ` (${fault})` : "");

function showRequests() {
  const newest = entries.slice(-MOST_ROWS).reverse();
  byId("kept").textContent = entries.length > MOST_ROWS
    ? `The newest ${MOST_ROWS} of ${count(entries.length)}.` : "The newest first.";
  show("journal", [newest[0]?.id, newest.at(-1)?.id], () => newest.map(requestRow));
}

function requestRow(entry) {
  const { page } = entry;
  const isUsual = !page || page.limit === null || page.limit === MOST_LISTED || page.by_reference;
  const about = !page ? entry.application_id ?? entry.path
    : page.by_reference ? "one reference" : windowText(page);
  const number = element("td", "quiet", count(entry.id));
  if (entry.request_id) number.title = `request id ${entry.request_id}`;
  return element("tr", "", number,
    element("td", "", words(entry.call)),
    element("td", "about", about + (isUsual ? "" : `, limit ${page.limit}`)),
    element("td", "number", page?.rows == null ? "" : count(page.rows),
      ...(page?.full && isWindow(entry) ? [element("span", "badge", "full")] : [])),
    element("td", failed(entry) ? "alarm" : "", statusText(entry)),
    element("td", "number quiet", entry.milliseconds.toFixed(1)));
}

// The picture of the walk

function drawPicture() {
  const windows = entries.filter(isWindow);
  byId("start").hidden = windows.length > 0;
  const [begins, ends] = [secondOf(histogram.updated_after), secondOf(histogram.updated_before)];
  const room = Math.max(1, (ends - begins) / 40);
  const [left, right] = [begins - room, ends + room];
  const place = (second) =>
    (100 * (Math.min(Math.max(second, left), right) - left)) / (right - left);
  const highest = Math.max(1, ...histogram.rows);
  show("bars", histogram, () => histogram.rows.map((rows, number) => {
    const bar = element("i", rows ? "" : "none");
    const start = begins + number * histogram.bucket_seconds;
    bar.style.left = `${place(start)}%`;
    bar.style.width = `${place(start + histogram.bucket_seconds) - place(start)}%`;
    // By the root: beside a bulk import the usual days would not be seen.
    bar.style.height = `${100 * Math.sqrt(rows / highest)}%`;
    return bar;
  }));
  show("axis", [left, right], () => [0, 1, 2, 3, 4].map((tick) => {
    const time = timeOf(left + ((right - left) * tick) / 4);
    const isShort = right - left < FEW_DAYS;
    return element("span", "", isShort ? plain(time).slice(5, 16) : time.slice(0, 10));
  }));
  const drawn = windows.slice(-MOST_DRAWN);
  show("windows", [left, right, drawn.map((entry) => entry.id)], () => drawn.map((entry) => {
    const { asked, applied } = entry.page;
    const after = asked.updated_after ?? applied?.updated_after;
    const before = asked.updated_before ?? applied?.updated_before;
    const start = place(after ? secondOf(after) : left);
    const end = place(before ? secondOf(before) : right);
    const span = element("i", "");
    span.style.left = `min(${start}%, 100% - 2px)`;
    span.style.width = `${Math.max(0, end - start)}%`;
    const row = element("div", outcomeOf(entry), span);
    const rows = entry.page.rows === null ? statusText(entry) : counted(entry.page.rows, "row");
    row.title = `No. ${count(entry.id)}: ${windowText(entry.page)}, ${rows}`;
    return row;
  }));
  const full = windows.filter(({ page }) => page.full).length;
  const bad = windows.filter(failed).length;
  const text = `${counted(sum(histogram.rows), "application")}, ` +
    `${counted(windows.length, "list request")}, ${counted(full, "full page")}` +
    (bad ? `, ${count(bad)} failed` : "") +
    (windows.length > MOST_DRAWN ? `; the latest ${count(MOST_DRAWN)} are drawn` : "");
  byId("picture").setAttribute("aria-label", text);
  byId("drawn").textContent = `${text}.`;
}

// Applications

let found = [];
let most = FEW; // that are listed
let chosen = null; // id of the application that is shown

async function search() {
  const text = byId("search").value;
  const listed = await read("applications", { search: text, limit: most + 1 });
  if (text !== byId("search").value) return;
  found = listed.slice(0, most);
  byId("more").hidden = listed.length <= most;
  const focused = document.activeElement?.dataset?.id;
  show("found", [found, chosen], () => found.map((each) => {
    const button = element("button", "row",
      element("span", "", each.application_reference_id),
      element("span", "quiet small", each.application_id),
      element("span", "quiet small", plain(each.updated_at)));
    button.type = "button";
    button.dataset.id = each.application_id;
    button.setAttribute("aria-current", each.application_id === chosen);
    button.addEventListener("click", () => choose(each.application_id));
    return element("li", "", button);
  }));
  if (!found.length) byId("found").replaceChildren(element("li", "quiet", "None is like this."));
  if (focused) byId("found").querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  await showChosen();
}

function choose(id) {
  chosen = id;
  return search().catch(() => {}); // the next look says why
}

async function showChosen() {
  const one = chosen === null ? null : await read("application", { application_id: chosen })
    .catch((error) => { if (!(error instanceof RefusedError)) throw error; });
  byId("application").hidden = !one;
  if (!one) {
    chosen = null; // it was removed
    return;
  }
  const { application, documents } = one;
  const suspected = new Set(entriesOf(application.income_calculations).flatMap(
    ([, each]) => listOf(each?.suspected_fraudulent?.document_ids)));
  byId("reference-shown").textContent = one.application_reference_id;
  const facts = { Id: chosen, Updated: plain(one.updated_at), Updates: count(one.updates) };
  show("facts", facts, () => Object.entries(facts).flatMap(
    ([name, text]) => [element("dt", "", name), element("dd", "", text)]));
  show("incomes", application, () => incomesOf(application, suspected));
  show("documents", [documents, [...suspected]], () => documentsOf(documents, suspected));
}

const doubt = (isSuspected) =>
  (isSuspected ? [element("span", "alarm", " ⚠\u00a0suspected")] : []);

function incomesOf({ income_calculations: calculations }, suspected) {
  // An application that somebody added may hold anything.
  const rows = entriesOf(calculations).flatMap(([slot, calculation]) =>
    listOf(calculation?.incomes).flatMap((income) =>
      listOf(income?.income_sources).map((source) => ({
        slot, year: income.year, type: source?.source_type,
        amount: Number(source?.calculated_income_amount) || 0,
        isSuspected: listOf(source?.document_ids).some((id) => suspected.has(id)),
      }))));
  const highest = Math.max(1, ...rows.map((row) => row.amount));
  const lines = rows.map((row) => {
    const bar = element("span", row.isSuspected ? "bar doubt" : "bar");
    bar.style.width = `${Math.max(0, (100 * row.amount) / highest)}%`;
    return element("tr", "",
      element("td", "quiet", words(row.slot)), element("td", "", String(row.year)),
      element("td", "", words(row.type), ...doubt(row.isSuspected)),
      element("td", "number", row.amount.toLocaleString("en", { minimumFractionDigits: 2 })),
      element("td", "track", bar));
  });
  const none = element("tr", "", element("td", "quiet", "No income was calculated."));
  return lines.length ? lines : [none];
}

function documentsOf({ documents }, suspected) {
  const lines = entriesOf(documents).flatMap(([kind, all]) => listOf(all).map((each) =>
    element("li", "", `${words(kind)} `, element("span", "quiet", String(each?.document_id)),
      ...doubt(suspected.has(each?.document_id)))));
  return lines.length ? lines : [element("li", "quiet", "There are none.")];
}

async function addApplication() {
  // A copy of an invented application under other ids, which any client can read.
  const reference = byId("reference").value;
  const id = `app-added-${Date.now().toString(36)}`;
  const model = (await read("applications", { limit: MOST_LISTED })).find((each) => !each.added);
  if (!model) throw new Error("there is no invented application to copy");
  const text = JSON.stringify(await read("application", { application_id: model.application_id }));
  const { application, documents } =
    JSON.parse(text.replaceAll(model.application_id.slice(4), id.slice(4)));
  application.application_date = state.service_time;
  application.application_reference_id = documents.application_reference_id = reference;
  await change("add", { application, documents, now: true });
  byId("reference").value = "";
  chosen = id;
  return `Added: ${reference}.`;
}

// What is pressed; each action says what became of it

let fading = 0;

function say(text, look = "") {
  byId("done").className = look;
  byId("done").textContent = text;
  clearTimeout(fading);
  if (text) fading = setTimeout(say, 10_000, "");
}

function on(event, target, action) {
  target.addEventListener(event, async (happened) => {
    happened.preventDefault();
    try {
      say(await action());
    } catch (error) {
      say(`Not done: ${error.message}`, "alarm");
    }
    known = "";
    refresh();
  });
}

for (const button of document.querySelectorAll("[data-advance]")) {
  on("click", button, async () =>
    `It is ${plain(await change("advance", { seconds: Number(button.dataset.advance) }))} now.`);
}
on("submit", byId("fault-form"), async () => {
  await change("add_faults", { faults: byId("fault").value });
  byId("fault").value = "";
  return "Added. It is played to the requests to come.";
});
for (const [id, name, text] of [
  ["clear-faults", "clear_faults", "No faults are left."],
  ["revoke", "revoke_tokens", "Every token given out so far is refused."],
  ["reset", "reset", "Everything is as when it was started."],
  ["clear", "clear_requests", "The requests so far are forgotten."],
]) on("click", byId(id), () => change(name).then(() => text));
on("submit", byId("add-form"), addApplication);
on("click", byId("update"), async () => {
  const one = await change("touch", { application_id: chosen });
  return `Updated ${one.application_reference_id} at ${plain(one.updated_at)}.`;
});
on("click", byId("callback"), async () => {
  say("It is being sent.");
  const { attempts } = await change("fire_callback", { application_id: chosen });
  return `${attempts.at(-1) === 200 ? "Delivered" : "Not delivered"}: ${attempts.join(", ")}.`;
});
on("click", byId("remove"), async () => {
  await change("remove", { application_id: chosen });
  return "Removed.";
});
byId("more").addEventListener("click", () => {
  most = Math.min(most + 5 * FEW, MOST_LISTED - 1);
  choose(chosen);
});
let typing = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  most = FEW;
  typing = setTimeout(choose, 150, chosen);
});
byId("shown").addEventListener("change", refresh);
poll();

// The page of an emulator: draws what the calls below /emulator/ return, and makes them.
//
// Whatever comes from there, ids and references too, is put into the page as text only.
"use strict";

const MOST_ROWS = 200; // of the table
const MOST_DRAWN = 480; // windows, a pixel each
const MOST_FOUND = 8; // applications at once
const MOST_LISTED = 1000; // of one call
const BARS = 152;
const SECOND = 1000; // in milliseconds

const byId = (id) => document.getElementById(id);
const count = (number) => Number(number).toLocaleString("en");
const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const listOf = (value) => (Array.isArray(value) ? value : []);
const entriesOf = (value) => (value && typeof value === "object" ? Object.entries(value) : []);
const secondOf = (text) => Date.parse(`${text}Z`) / 1000;
const timeOf = (second) => new Date(second * 1000).toISOString().slice(0, 19).replace("T", " ");
const plain = (time) => String(time).replace("T", " ");
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function element(name, look, ...children) {
  const made = document.createElement(name);
  if (look) made.className = look;
  made.append(...children); // texts become text
  return made;
}

// Calls

class RefusedError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function request(method, path, body, signal) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const reply = await fetch(`/emulator${path}`, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store", credentials: "omit", redirect: "error",
  });
  if (reply.ok) return reply;
  const error = await reply.json().catch(() => ({}));
  const refused = new RefusedError(error.error, error.message || `status ${reply.status}`);
  if (reply.status === 401 || error.error === "control_token_needed") askForToken(refused);
  throw refused;
}

async function call(method, path, body) {
  return (await request(method, path, body)).json();
}

const pathOf = (id) => `/applications/${encodeURIComponent(id)}`;

function askForToken(refused) {
  const why = refused.code === "control_token_needed" ? `Refused: ${refused.message}.`
    : "This emulator is controlled with a token, the one in its INCOME_EMULATOR_TOKEN.";
  byId("access-why").textContent =
    sessionStorage.getItem("token") ? "This token was refused." : why;
  byId("connection").textContent = "Not connected.";
  sessionStorage.removeItem("token");
  if (!byId("access").hidden) return;
  byId("access").hidden = false;
  document.querySelector("main").hidden = true;
  byId("token").focus();
}

// The stream says it when the emulator has gone.
const quietly = (work) => work.catch(() => {});

// Actions: each says what became of it

async function act(action) {
  try {
    say(await action());
  } catch (error) {
    say(`Not done: ${error.message}`, "alarm");
  }
  refresh();
}

let fading = 0;

function say(text, look = "") {
  byId("done").className = look;
  byId("done").textContent = text;
  clearTimeout(fading);
  if (text) fading = setTimeout(say, 10 * SECOND, "");
}

function onClick(id, action) {
  byId(id).addEventListener("click", () => act(action));
}

function onSubmit(id, action) {
  byId(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act(action);
  });
}

// The journal, as it comes

let entries = 0; // how many came
let waiting = []; // not in the table yet
let walk = []; // the list requests to be drawn
let walked = { all: 0, full: 0, failed: 0 };
let leaving = new AbortController();

async function follow() {
  const { signal } = leaving;
  while (!signal.aborted) {
    let why = "The emulator has ended or cannot be reached";
    try {
      await readEvents(signal);
    } catch (error) {
      if (error instanceof RefusedError) why = `Refused: ${error.message}`;
    }
    if (signal.aborted || !byId("access").hidden) break;
    showConnection(false, `${why}. Trying again.`);
    await pause(SECOND);
  }
}

async function readEvents(signal) {
  // Not an EventSource, which can send no token. Each connection begins with the oldest request
  // that is kept: another emulator may run at this address by now.
  const reply = await request("GET", "/events?after=0", undefined, signal);
  forget();
  showConnection(true, "Connected: requests show as they come.");
  refresh();
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) takeEvent(part);
    drawSoon();
  }
}

function takeEvent(text) {
  const fields = new Map(text.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  if (fields.get("event") === "request") takeEntry(JSON.parse(fields.get("data")));
  if (fields.get("event") === "reset") {
    forget();
    refresh();
  }
}

function takeEntry(entry) {
  entries += 1;
  waiting.push(entry);
  if (waiting.length > 2 * MOST_ROWS) waiting = waiting.slice(-MOST_ROWS);
  if (!entry.page || !isAboutWindow(entry.page)) return;
  const drawn = drawnOf(entry);
  walk.push(drawn);
  walked.all += 1;
  if (drawn.outcome in walked) walked[drawn.outcome] += 1;
  if (walk.length > 2 * MOST_DRAWN) walk = walk.slice(-MOST_DRAWN);
}

// One for a reference is not, and one for a single row asks for the time.
const isAboutWindow = (page) => !page.by_reference && page.limit !== 1;

function drawnOf(entry) {
  const { page } = entry;
  const bound = (name) => page.asked[name] ?? page.applied?.[name] ?? null;
  const [after, before] = [bound("updated_after"), bound("updated_before")];
  return {
    after: after === null ? -Infinity : secondOf(after),
    before: before === null ? Infinity : secondOf(before),
    outcome: outcomeOf(entry),
    text: `No. ${count(entry.id)}: ${windowText(page)}, ${answerText(entry)}`,
  };
}

function outcomeOf({ page, status, fault }) {
  if (page.rows === null || status !== 200 || (fault && fault !== "trickle")) return "failed";
  return page.full ? "full" : page.rows ? "covered" : "empty";
}

function windowText({ asked, applied }) {
  const spanText = (window) =>
    `${plain(window.updated_after ?? "…")} to ${plain(window.updated_before ?? "…")}`;
  const differs = applied && ["updated_after", "updated_before"].some(
    (name) => asked[name] !== null && asked[name] !== applied[name],
  );
  return spanText(asked) + (differs ? ` (applied: ${spanText(applied)})` : "");
}

function answerText({ page, status, fault }) {
  if (page.rows === null) return statusText(status, fault);
  return counted(page.rows, "row") + (page.full ? ", full" : "") + (fault ? `, ${fault}` : "");
}

function statusText(status, fault) {
  return (status ? `${status}` : "no reply") + (fault ? ` (fault: ${fault})` : "");
}

function forget() {
  [entries, waiting, walk, walked] = [0, [], [], { all: 0, full: 0, failed: 0 }];
  byId("journal").replaceChildren();
  drawSoon();
}

function showConnection(isOpen, text) {
  byId("connection").className = isOpen ? "small quiet" : "alarm";
  if (byId("connection").textContent !== text) byId("connection").textContent = text;
  isConnected = isOpen;
}

// State

let isConnected = false;
let state = null;
let histogram = null;
let isAsking = false;
let isStale = false;
let known = ""; // of the applications that are shown

async function refresh() {
  isStale = true;
  if (isAsking) return;
  isAsking = true;
  while (isStale && isConnected) {
    isStale = false;
    await readState();
  }
  isAsking = false;
}

async function readState() {
  try {
    state = await call("GET", "/state");
    showState();
    const shown = Number(byId("shown").value);
    const now = JSON.stringify([state.applications, shown, state.rules, state.clock.time_flows]);
    const moves = shown || state.rules.visibility_delay ? state.clock.service_time : "";
    if (now + moves !== known) {
      histogram = await call("GET", `/histogram?buckets=${BARS}${spanQuery(shown)}`);
      await search();
      known = now + moves;
      drawSoon();
    }
    showFaults(state.faults.count || byId("faults").children.length
      ? await call("GET", "/faults") : { faults: [] });
  } catch {
    // The stream says it when the emulator has gone.
  }
}

function spanQuery(seconds) {
  if (!seconds) return "";
  const now = secondOf(state.clock.service_time) + 1;
  const written = (second) => new Date(second * 1000).toISOString().slice(0, 19);
  return `&updated_after=${written(now - seconds)}&updated_before=${written(now)}`;
}

function showState() {
  byId("time").textContent = plain(state.clock.service_time);
  byId("count").textContent = count(state.applications.count);
  byId("requests").textContent = count(state.requests.count);
  byId("most").textContent = count(state.limits.maximum);
  byId("callbacks-go").textContent = state.callbacks_url
    ? `Callbacks go to ${state.callbacks_url}.`
    : "Callbacks go nowhere yet: run income-client listen on the emulator's machine.";
}

function showFaults({ faults }) {
  const lines = faults.map((fault) => {
    const words = [fault.call ?? "every request"];
    if (fault.application_id) words.push(`of ${fault.application_id}`);
    words.push(`: ${fault.status ?? fault.kind}`);
    if (fault.rate !== null) words.push(`, ${Math.round(100 * fault.rate)} % of them`);
    if (fault.requests_left !== null) words.push(`, ${count(fault.requests_left)} left`);
    if (fault.requests_to_skip) words.push(`, after ${count(fault.requests_to_skip)}`);
    if (fault.seconds !== null) words.push(`, for ${fault.seconds} s`);
    return words.join(" ").replaceAll(" :", ":").replaceAll(" ,", ",");
  });
  const old = [...byId("faults").children].map((each) => each.textContent);
  if (JSON.stringify(old) === JSON.stringify(lines)) return;
  byId("faults").replaceChildren(...lines.map((line) => element("li", "", line)));
}

async function showCommands() {
  const variables = await call("GET", "/environment");
  const lines = Object.entries(variables).map(([name, text]) => `export ${name}=${text}`);
  byId("commands").textContent = [...lines, "income-client applications --quiet"].join("\n");
}

// Applications

let found = [];
let most = MOST_FOUND; // that are listed
let listed = ""; // what the list shows
let shownOne = ""; // what is shown of the chosen one
let chosen = null; // id of the application that is shown

async function search() {
  const text = byId("search").value;
  const page = await call("GET", `/applications?limit=${most}&search=${encodeURIComponent(text)}`);
  if (text !== byId("search").value) return;
  found = page.applications;
  if (chosen !== null) await showApplication(chosen);
  const now = JSON.stringify(page);
  if (now === listed) return; // so that what is selected or read stays
  listed = now;
  byId("more").hidden = page.next === null || most === MOST_LISTED;
  const focused = document.activeElement?.dataset?.id;
  byId("found").replaceChildren(...found.map((each) => {
    const button = element("button", "row",
      element("span", "", each.application_reference_id),
      element("span", "quiet small", each.application_id),
      element("span", "quiet small", plain(each.updated_at)));
    button.type = "button";
    button.dataset.id = each.application_id;
    if (each.application_id === chosen) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => quietly(choose(each.application_id)));
    return element("li", "", button);
  }));
  if (!found.length) byId("found").append(element("li", "quiet", "None is like this."));
  if (focused) byId("found").querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
}

async function choose(id) {
  chosen = id;
  await showApplication(id);
  for (const button of byId("found").querySelectorAll("button")) {
    if (button.dataset.id === id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

async function showApplication(id) {
  let one;
  try {
    one = await call("GET", pathOf(id));
  } catch (error) {
    if (error.code !== "no_such_application") return;
    chosen = null;
    byId("application").hidden = true;
    return;
  }
  const now = JSON.stringify(one);
  if (id !== chosen || (now === shownOne && !byId("application").hidden)) return;
  shownOne = now;
  byId("reference-shown").textContent = one.application_reference_id;
  const facts = {
    Id: one.application_id, Updated: plain(one.updated_at), Updates: count(one.updates),
  };
  byId("facts").replaceChildren(...Object.entries(facts).flatMap(
    ([name, text]) => [element("dt", "", name), element("dd", "", text)],
  ));
  byId("incomes").replaceChildren(...incomesOf(one.application));
  byId("documents").replaceChildren(...documentsOf(one));
  byId("application").hidden = false;
}

const suspectedOf = (calculation) =>
  new Set(listOf(calculation?.suspected_fraudulent?.document_ids));

function incomesOf(application) {
  // An application that somebody added may hold anything.
  const calculations = entriesOf(application?.income_calculations);
  const sourcesOf = (income) => listOf(income?.income_sources);
  const amountOf = (source) => Number(source?.calculated_income_amount) || 0;
  const all = calculations.flatMap(([, each]) => listOf(each?.incomes).flatMap(sourcesOf));
  const highest = Math.max(1, ...all.map(amountOf));
  const written = (amount) => amount.toLocaleString("en", { minimumFractionDigits: 2 });
  const tables = calculations.map(([slot, calculation]) => {
    const suspected = suspectedOf(calculation);
    const rows = listOf(calculation?.incomes).flatMap((income) => sourcesOf(income).map(
      (source, place) => {
        const isSuspected = listOf(source?.document_ids).some((id) => suspected.has(id));
        const bar = element("span", isSuspected ? "bar doubt" : "bar");
        bar.style.width = `${Math.max(0, 100 * amountOf(source) / highest)}%`;
        return element("tr", "",
          element("td", "", place ? "" : String(income?.year)),
          element("td", "", String(source?.source_type ?? "").replaceAll("_", " "),
            ...(isSuspected ? [element("span", "alarm small", " ⚠ rests on a suspected document")]
              : [])),
          element("td", "number", written(amountOf(source))),
          element("td", "track", bar));
      },
    ));
    const heads = ["Year", "Source", "Amount", ""].map((text, place) => {
      const head = element(text ? "th" : "td", place === 2 ? "number" : "", text);
      if (text) head.scope = "col";
      return head;
    });
    return element("table", "incomes", element("caption", "", `Income of ${slot}`),
      element("thead", "", element("tr", "", ...heads)), element("tbody", "", ...rows));
  });
  return tables.length ? tables : [element("p", "quiet", "No income was calculated.")];
}

function documentsOf({ application, documents }) {
  const suspected = new Set(entriesOf(application?.income_calculations).flatMap(
    ([, calculation]) => [...suspectedOf(calculation)],
  ));
  const lines = entriesOf(documents?.documents).flatMap(([kind, all]) => listOf(all).map((each) => {
    const isSuspected = suspected.has(each?.document_id);
    return element("li", "", `${kind.replaceAll("_", " ")} `,
      element("span", "quiet", String(each?.document_id)),
      ...(isSuspected ? [element("span", "alarm", " ⚠ suspected fraudulent")] : []));
  }));
  return [element("h4", "", "Documents"), lines.length
    ? element("ul", "plain small", ...lines) : element("p", "quiet", "There are none.")];
}

async function addApplication() {
  // A copy of the latest one under another name, which any client can read.
  const reference = byId("reference").value;
  const [latest] = (await call("GET", "/applications?limit=1")).applications;
  const id = `added-${Date.now().toString(36)}`;
  const time = state.clock.service_time;
  let body = { application: { application_id: id, applicants: {}, income_calculations: {},
    data_sources: { image_files: [], structured_data: [] } } };
  if (latest) {
    const { application, documents } = await call("GET", pathOf(latest.application_id));
    let text = JSON.stringify({ application, documents });
    for (const [, all] of entriesOf(documents.documents)) {
      for (const { document_id: old, file_ids: files } of all) {
        for (const each of [old, ...listOf(files)]) {
          text = text.replaceAll(JSON.stringify(each), () => JSON.stringify(`${id}-${each}`));
        }
      }
    }
    body = JSON.parse(text);
    Object.assign(body.documents, { application_id: id, application_reference_id: reference });
  }
  Object.assign(body.application, {
    application_id: id, application_reference_id: reference, application_date: time,
  });
  delete body.application.last_updated_at;
  const added = await call("POST", "/applications", { ...body, now: true });
  byId("reference").value = "";
  chosen = added.application_id ?? id;
  return `Added: ${reference}.`;
}

// The picture

let isDrawn = true;

function drawSoon() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(() => {
    isDrawn = true;
    drawPicture(); // first: it measures, and the table is to be laid out once
    drawJournal();
  });
}

function drawJournal() {
  if (!entries) byId("kept").textContent = "None yet. The newest will come first.";
  if (!waiting.length) return;
  const rows = waiting.slice(-MOST_ROWS).reverse().map(journalRow);
  waiting = [];
  const body = byId("journal");
  body.prepend(...rows);
  while (body.children.length > MOST_ROWS) body.lastChild.remove();
  byId("kept").textContent = entries > MOST_ROWS
    ? `The newest ${MOST_ROWS} of ${count(entries)}.` : "The newest first.";
}

function journalRow(entry) {
  const { page } = entry;
  const about = page ? (page.by_reference ? "one reference" : windowText(page))
    : entry.application_id ?? entry.path;
  const isUsual = !page || page.limit === null || page.limit === state?.limits.maximum;
  const limit = isUsual || page.by_reference ? "" : `, limit ${page.limit}`;
  const look = page ? outcomeOf(entry) : entry.status !== 200 || entry.fault ? "failed" : "";
  const number = element("td", "quiet", count(entry.id));
  if (entry.request_id) number.title = `request id ${entry.request_id}`;
  return element("tr", look === "failed" ? "bad" : "",
    number,
    element("td", "", entry.call.replaceAll("_", " ")),
    element("td", "about", about + limit),
    element("td", "number", page?.rows == null ? "" : count(page.rows),
      ...(page?.full && isAboutWindow(page) ? [element("span", "badge", "full")] : [])),
    element("td", look === "failed" ? "alarm" : "", statusText(entry.status, entry.fault)),
    element("td", "number quiet", entry.milliseconds.toFixed(1)));
}

const MARGIN = 16;
const ROWS_HEIGHT = 110;
const AXIS = 30;
const STEP = 12;
const ASKED_HEIGHT = 480;
const GROWTH = 120; // what is below does not move with each request
const FEW_DAYS = 5 * 86400;
const THINNEST = 2;
const MARK = 6;
const HATCHED = 3; // thinner ones have a mark at the edge alone

function drawPicture() {
  const canvas = byId("picture");
  byId("start").hidden = walk.length > 0;
  const asked = Math.ceil((walk.length * STEP) / GROWTH) * GROWTH;
  const height = ROWS_HEIGHT + AXIS + Math.min(asked, ASKED_HEIGHT) + 4;
  const width = canvas.clientWidth;
  const ratio = devicePixelRatio || 1;
  const size = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    [canvas.width, canvas.height] = size;
    canvas.style.height = `${height}px`;
  }
  const paint = canvas.getContext("2d");
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.clearRect(0, 0, width, height);
  if (!histogram || !width) return;
  const colours = coloursOf(canvas);
  const [begins, ends] = [secondOf(histogram.updated_after), secondOf(histogram.updated_before)];
  const room = Math.max(1, (ends - begins) / 40);
  const shown = { after: begins - room, before: ends + room };
  const left = 2 * MARGIN;
  const pixels = (width - left - MARGIN) / (shown.before - shown.after);
  const placeOf = (second) =>
    left + (Math.min(Math.max(second, shown.after), shown.before) - shown.after) * pixels;
  drawRows(paint, colours, placeOf);
  drawAxis(paint, colours, shown, [left, width - MARGIN]);
  drawWindows(paint, colours, placeOf, [left, width - MARGIN]);
  describe(canvas);
}

function coloursOf(canvas) {
  const style = getComputedStyle(canvas);
  const names = ["soft", "line", "covered", "empty", "full", "failed", "card"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
}

function drawRows(paint, colours, placeOf) {
  const highest = Math.max(1, ...histogram.buckets.map((bucket) => bucket.rows));
  paint.fillStyle = colours.soft;
  for (const bucket of histogram.buckets) {
    if (!bucket.rows) continue;
    const start = secondOf(bucket.start);
    const [x, end] = [placeOf(start), placeOf(start + histogram.bucket_seconds)];
    // By the root: beside a bulk import the usual days would not be seen.
    const height = Math.max(1, Math.sqrt(bucket.rows / highest) * (ROWS_HEIGHT - 4));
    paint.fillRect(x, ROWS_HEIGHT - height, Math.max(1, end - x - 1), height);
  }
}

function drawAxis(paint, colours, shown, [left, right]) {
  const ticks = right - left < 560 ? 2 : 4;
  const seconds = shown.before - shown.after;
  paint.fillStyle = colours.line;
  paint.fillRect(left, ROWS_HEIGHT, right - left, 1);
  paint.font = "12px system-ui, sans-serif";
  for (let tick = 0; tick <= ticks; tick += 1) {
    const time = timeOf(Math.round(shown.after + (seconds * tick) / ticks));
    const x = left + ((right - left) * tick) / ticks;
    paint.fillStyle = colours.line;
    paint.fillRect(Math.min(x, right - 1), ROWS_HEIGHT, 1, 6);
    paint.fillStyle = colours.soft;
    paint.textAlign = tick === ticks ? "right" : tick ? "center" : "left";
    const isShort = seconds < FEW_DAYS;
    paint.fillText(isShort ? time.slice(right - left < 560 ? 11 : 0) : time.slice(0, 10),
      x, ROWS_HEIGHT + 20);
  }
}

function drawWindows(paint, colours, placeOf, [left, right]) {
  const drawn = walk.slice(-MOST_DRAWN);
  const step = Math.min(STEP, ASKED_HEIGHT / drawn.length);
  const thick = step * 0.8;
  let y = ROWS_HEIGHT + AXIS;
  for (const one of drawn) {
    // What lies outside is a mark at the edge.
    const x = Math.min(placeOf(one.after), right - THINNEST);
    const wide = Math.max(THINNEST, Math.min(placeOf(one.before), right) - x);
    paint.fillStyle = colours[one.outcome];
    paint.fillRect(x, y, wide, thick);
    if (one.outcome === "full") {
      if (thick < HATCHED) {
        paint.fillRect(left - MARK - 6, y, MARK + 2, thick);
      } else {
        hatch(paint, colours.card, x, y, wide, thick);
        pointer(paint, colours.full, left - MARK - 6, y, thick);
      }
    }
    if (one.outcome === "failed") cross(paint, colours.failed, left - 9, y + thick / 2);
    y += step;
  }
}

function hatch(paint, colour, x, y, wide, thick) {
  paint.save();
  paint.beginPath();
  paint.rect(x, y, wide, thick);
  paint.clip();
  paint.beginPath();
  for (let place = x - thick; place < x + wide; place += 7) {
    paint.moveTo(place, y + thick);
    paint.lineTo(place + thick, y);
  }
  paint.strokeStyle = colour;
  paint.lineWidth = 1.5;
  paint.stroke();
  paint.restore();
}

function pointer(paint, colour, x, y, thick) {
  paint.fillStyle = colour;
  paint.beginPath();
  paint.moveTo(x, y);
  paint.lineTo(x + MARK + 2, y + thick / 2);
  paint.lineTo(x, y + thick);
  paint.fill();
}

function cross(paint, colour, x, y) {
  const arm = MARK / 2;
  paint.beginPath();
  paint.moveTo(x - arm, y - arm);
  paint.lineTo(x + arm, y + arm);
  paint.moveTo(x - arm, y + arm);
  paint.lineTo(x + arm, y - arm);
  paint.strokeStyle = colour;
  paint.lineWidth = 1.5;
  paint.stroke();
}

function describe(canvas) {
  const { all, full, failed } = walked;
  const text = `${counted(histogram.rows, "application")}, ${counted(all, "list request")}, ` +
    counted(full, "full page") + (failed ? `, ${count(failed)} failed` : "");
  canvas.setAttribute("aria-label", all ? text : "No list request yet.");
  canvas.dataset.drawn = Math.min(walk.length, MOST_DRAWN);
  canvas.dataset.full = full;
  const part = all > MOST_DRAWN ? ` The latest ${count(MOST_DRAWN)} are drawn.` : "";
  byId("drawn").textContent = `${all ? `${text}.${part} ` : ""}Above: where the rows lie, by ` +
    "the square root of their number." +
    (all ? " Below: the window of each list request, from the first to the last." : "");
}

function pointAt(event) {
  const drawn = walk.slice(-MOST_DRAWN);
  const step = Math.min(STEP, ASKED_HEIGHT / drawn.length);
  const one = drawn[Math.floor((event.offsetY - ROWS_HEIGHT - AXIS) / step)];
  byId("picture").title = one ? one.text : "";
}

// What is pressed

for (const button of document.querySelectorAll("[data-advance]")) {
  const seconds = Number(button.dataset.advance);
  button.addEventListener("click", () => act(async () => {
    const clock = await call("POST", "/clock", { advance_seconds: seconds });
    return `It is ${plain(clock.service_time)} now.`;
  }));
}
onSubmit("fault-form", async () => {
  await call("POST", "/faults", { faults: byId("fault").value });
  byId("fault").value = "";
  return "Added. It is played to the requests to come.";
});
onClick("clear-faults", async () => {
  await call("DELETE", "/faults");
  return "No faults are left.";
});
onClick("revoke", async () => {
  await call("POST", "/tokens/revoke");
  return "Every token given out so far is refused.";
});
onClick("reset", async () => {
  await call("POST", "/reset");
  return "Everything is as when it was started.";
});
onClick("clear", async () => {
  await call("DELETE", "/requests");
  return "The requests so far are forgotten.";
});
onSubmit("add-form", addApplication);
onClick("update", async () => {
  const one = await call("POST", `${pathOf(chosen)}/touch`);
  return `Updated ${one.application_reference_id} at ${plain(one.updated_at)}.`;
});
onClick("callback", async () => {
  say("It is being sent.");
  const sent = await call("POST", "/callbacks", { application_id: chosen });
  return `${sent.delivered ? "Delivered" : "Not delivered"}: ${sent.answers.join(", ")}.`;
});
onClick("remove", async () => {
  await call("DELETE", pathOf(chosen));
  return "Removed.";
});
byId("more").addEventListener("click", () => {
  most = Math.min(most + 5 * MOST_FOUND, MOST_LISTED);
  quietly(search());
});
let typing = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  most = MOST_FOUND;
  typing = setTimeout(() => quietly(search()), 150);
});
byId("shown").addEventListener("change", refresh);
byId("picture").addEventListener("pointermove", pointAt);
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value);
  byId("token").value = "";
  byId("access").hidden = true;
  document.querySelector("main").hidden = false;
  begin();
});
addEventListener("resize", drawSoon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
setInterval(() => document.visibilityState === "visible" && refresh(), SECOND);
addEventListener("pagehide", () => leaving.abort());
addEventListener("pageshow", begin);

function begin() {
  leaving.abort();
  leaving = new AbortController();
  follow();
  quietly(showCommands());
}

// The page of `surprise-rerank serve`. Texts are set as text only: the page's policy allows no other way.
"use strict";

const BESIDE = "cosine"; // whose order is shown beside
const PAUSE = 80; // milliseconds without a key before a question is asked
const LONGEST = 20000; // characters of a text that are shown
const KEY = "surprise-rerank-token";
const NAMES = { bm25: "BM25", dynamax: "DynaMax" };
const SVG = "http://www.w3.org/2000/svg";

const at = (id) => document.getElementById(id);
const question = at("question"), system = at("system"), depth = at("depth"), top_k = at("top");
const passages = at("passages"), compare = at("compare"), least = at("least"), filter = at("filter"), orders = at("orders"), lines = at("lines");
let info = null, pending = null, timer = 0, typed = 0, shown = null;

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

// What the server answers.

async function call(path, body, signal) {
  const headers = { Accept: "application/json" }, token = sessionStorage.getItem(KEY);
  if (token && !/^[\x21-\x7e]+$/.test(token)) throw new Refused(401, "A token has letters, digits and signs without spaces only.");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const sent = { method: body ? "POST" : "GET", headers, signal, cache: "no-store", redirect: "error" };
  if (body) sent.body = JSON.stringify(body);
  const answer = await fetch(path, sent);
  let content = {};
  try { content = await answer.json(); } catch { /* said below by the status */ }
  if (!answer.ok) throw new Refused(answer.status, content.message || `The server answered ${answer.status}.`);
  return content;
}

async function begin() {
  try {
    info = await call("info");
  } catch (error) {
    if (error.status === 401) return logIn(sessionStorage.getItem(KEY) !== null);
    say(error.status === 503 ? "The model is being loaded …" : reason(error));
    setTimeout(begin, 1000);
    return;
  }
  say("");
  at("login").hidden = true;
  at("search").hidden = false;
  at("logout").hidden = sessionStorage.getItem(KEY) === null;
  const count = info.documents === null ? "" : `${info.documents.toLocaleString("en")} documents · `;
  const named = info.collection === null ? "" : `${info.collection} · `;
  at("about").textContent = `${named}${count}${info.model_id}`;
  system.replaceChildren(...Object.entries(info.systems).map(([name, summary]) => {
    const option = element("option", "", name);
    option.value = name;
    option.title = summary;
    return option;
  }));
  for (const field of [depth, top_k]) {
    field.max = info.limits.max_documents;
    field.value = Math.min(field.value, field.max);
  }
  // The most that n questions tell.
  if (info.background !== null) least.max = Math.floor(1000 * info.background / (info.background + 1)) / 1000;
  at("examples").replaceChildren(...info.examples.map((text, row) => {
    const item = element("li"), button = element("button", "", text);
    button.type = "button";
    button.addEventListener("click", () => { question.value = text; question.focus(); search(true); });
    item.append(button);
    if (row === info.examples.length - 1) item.append(" (of another topic)");
    return item;
  }));
  at("start").hidden = false;
  readLink();
  question.focus();
}

function logIn(again) {
  sessionStorage.removeItem(KEY);
  forget();
  at("search").hidden = at("start").hidden = true;
  at("login").hidden = false;
  say(again ? "The server does not take this token." : "");
  at("token").focus();
}

// A search: one list, or both orders of the same question.

function soon() {
  typed = performance.now();
  clearTimeout(timer);
  timer = setTimeout(() => search(false), PAUSE);
}

async function search(pushes) {
  clearTimeout(timer);
  if (pending) pending.abort();
  const begun = pushes ? performance.now() : typed || performance.now();
  const text = question.value.trim();
  writeLink(pushes);
  if (!text) return clear();
  let body;
  try { body = request(text); } catch (error) { forget(); return say(error.message); }
  const ours = pending = new AbortController();
  const slow = setTimeout(() => orders.classList.add("waiting"), 200);
  const slower = setTimeout(() => say("The first search by a system asks other questions, too, and takes some seconds …"), 1500);
  try {
    const answer = await call("v1/search", body, ours.signal);
    if (ours !== pending) return;
    say("");
    show(answer);
    orders.dataset.question = text;
    requestAnimationFrame(() => { at("timing").textContent = `${answer.compared ? "Both orders" : "Answered"} in ${Math.round(performance.now() - begun)} ms.`; });
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) return logIn(true);
    if (ours === pending) forget(); // what stands there is of another question
    say(reason(error));
    if (error.status === 503 && ours === pending) timer = setTimeout(() => search(false), 2000);
  } finally {
    clearTimeout(slow);
    clearTimeout(slower);
    if (ours === pending) orders.classList.remove("waiting");
  }
}

function request(text) {
  const body = { query: text, system: system.value, top_k: whole(top_k), depth: whole(depth), excerpts: true, keep_refused: true };
  if (passages.checked) body.unit = "passage";
  if (compare.checked && BESIDE in info.systems) body.compare_with = BESIDE;
  if (!least.disabled && (Number(least.value) > 0 || info.min_percentile !== null)) body.min_percentile = Number(least.value);
  if (least.disabled && info.min_percentile !== null) body.min_percentile = 0;
  if (filter.value.trim()) {
    try { body.filter = JSON.parse(filter.value); } catch (error) { throw new Error(`The filter is not JSON: ${error.message}`); }
  }
  return body;
}

function whole(field) {
  const number = Math.min(Math.max(Math.round(Number(field.value)) || 1, 1), Number(field.max));
  if (field !== document.activeElement) field.value = number;
  return number;
}

// What is shown.

function show(answer) {
  shown = answer;
  at("start").hidden = true;
  orders.hidden = at("told").hidden = false;
  at("legend").hidden = !answer.compared;
  orders.classList.toggle("single", !answer.compared);
  orders.classList.toggle("doubtful", answer.verdict.status === "off-topic");
  const verdict = at("verdict");
  verdict.hidden = false;
  verdict.className = answer.verdict.status;
  at("status").textContent = `${answer.verdict.status}:`;
  at("reason").textContent = `${answer.verdict.reason}.`;
  const compared = answer.compared || { system: "", results: [] };
  const ranks = new Map(answer.results.map((hit, row) => [hit.line_id, row + 1]));
  fill(at("after"), answer.system, answer.results, (hit, rank) => moved(hit.rank_compared, rank, compared.system));
  fill(at("before"), compared.system, compared.results, (hit, rank) => left(rank, ranks.get(hit.line_id), answer.system));
  grey();
  draw();
}

function fill(place, name, hits, say) {
  place.querySelector("h2").textContent = name ? `By ${name}` : "";
  const found = hits.map((hit, row) => card(hit, row + 1, say(hit, row + 1)));
  place.querySelector("ol").replaceChildren(...(found.length ? found : [element("li", "small", name ? "No document." : "")]));
}

function card(hit, rank, movement) {
  const item = element("li", "hit");
  item.tabIndex = -1;
  item.dataset.id = hit.line_id;
  if (hit.percentile !== null) item.dataset.percentile = hit.percentile;
  const head = element("p", "head");
  const title = element("bdi", "title", hit.title || hit.id);
  head.append(element("span", "rank", `${rank}.`), title, element("span", `moved ${movement.way}`, movement.said));
  item.append(head);
  if (hit.excerpt && hit.excerpt.text) item.append(marked(hit.excerpt));
  if (hit.citation !== title.textContent) item.append(cited(hit));
  const numbers = element("p", "numbers");
  if (hit.percentile !== null) {
    const bar = element("span", "percentile", `percentile ${share(hit.percentile)}`);
    bar.style.setProperty("--share", Math.min(Math.max(hit.percentile, 0), 1));
    numbers.append(bar);
  }
  const parts = Object.entries(hit.parts).filter(([, value]) => value !== null);
  if (parts.length) numbers.append(element("span", "parts", parts.map(([name, value]) => `${NAMES[name] || name} ${signed(value)}`).join(" · ")));
  numbers.append(element("span", "refusal", "would be refused"));
  item.append(numbers, whole_text(hit));
  return item;
}

// Where it stands, as a link where its metadata has an address, or the server its file: a browser opens a PDF
// at its page.
function cited(hit) {
  const line = element("p", "small"), address = String(hit.metadata.url || "");
  const file = info.files && hit.metadata.path === hit.id ? `files/${hit.id.split("/").map(encodeURIComponent).join("/")}` : "";
  const url = /^https?:\/\//.test(address) ? address : file;
  const link = element(url ? "a" : "bdi", "", hit.citation);
  if (url) {
    link.href = hit.place && hit.place.page ? `${url.split("#")[0]}#page=${hit.place.page}` : url;
    link.rel = "noreferrer noopener";
    link.target = "_blank";
  }
  line.append(link);
  return line;
}

function marked(excerpt) {
  const letters = Array.from(excerpt.text), line = element("p", "excerpt"), text = element("bdi");
  let place = 0;
  for (const [start, end] of excerpt.marks) {
    text.append(letters.slice(place, start).join(""), element("mark", "", letters.slice(start, end).join("")));
    place = end;
  }
  text.append(letters.slice(place).join(""));
  line.append(text);
  return line;
}

function whole_text(hit) {
  const details = element("details"), summary = element("summary", "", "Text"), values = element("dl");
  const text = hit.text.length > LONGEST ? `${hit.text.slice(0, LONGEST)} … (${(hit.text.length - LONGEST).toLocaleString("en")} characters more)` : hit.text;
  details.append(summary);
  // Filled when it is opened: most are never read.
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) {
      const line = element("p");
      line.tabIndex = 0;
      line.append(element("bdi", "", text));
      for (const [name, value] of [["id", hit.id], ["score", hit.score === null ? "none" : hit.score.toFixed(4)], ...Object.entries(hit.metadata)]) {
        const shown = typeof value === "object" ? JSON.stringify(value) : String(value);
        const cell = element("dd");
        cell.append(element("bdi", "", shown.slice(0, 500)));
        values.append(element("dt", "", name), cell);
      }
      details.append(line, values);
    }
    draw();
  });
  return details;
}

function moved(before, now, name) {
  if (!name) return { way: "", said: "" };
  if (before === null) return { way: "up", said: `not in ${name}'s pool` };
  if (before === now) return { way: "", said: "as before" };
  return before > now ? { way: "up", said: `↑ from ${before}.` } : { way: "down", said: `↓ from ${before}.` };
}

function left(before, now, name) {
  if (now === undefined) return { way: "down", said: `not shown by ${name}` };
  if (before === now) return { way: "", said: "stays" };
  return before > now ? { way: "up", said: `↑ to ${now}.` } : { way: "down", said: `↓ to ${now}.` };
}

function grey() {
  least.disabled = !info.measured.includes(system.value);
  if (least.disabled) at("least-said").textContent = "no background";
  const border = least.disabled ? 0 : Number(least.value);
  if (!least.disabled) at("least-said").textContent = border > 0 ? share(border) : "off";
  for (const item of at("after").querySelectorAll(".hit")) {
    item.classList.toggle("refused", border > 0 && Number(item.dataset.percentile || 0) < border);
  }
}

// A line for each document of the right order, to its place in the left one, or to below it.
function draw() {
  lines.replaceChildren();
  if (orders.hidden || !lines.clientWidth) return;
  const frame = lines.getBoundingClientRect(), found = new Map();
  for (const item of at("before").querySelectorAll(".hit")) found.set(item.dataset.id, item);
  let row = 0;
  for (const item of at("after").querySelectorAll(".hit")) {
    row += 1;
    const from = found.get(item.dataset.id), path = document.createElementNS(SVG, "path");
    const end = middle(item, frame), hit = shown.results[row - 1];
    if (!from && !hit.rank_compared) continue;
    const start = from ? middle(from, frame) : frame.height + 12;
    path.setAttribute("d", `M0 ${start} C${frame.width / 2} ${start} ${frame.width / 2} ${end} ${frame.width} ${end}`);
    const rank = hit.rank_compared;
    path.setAttribute("class", `${rank > row ? "up" : rank < row ? "down" : ""} ${from ? "" : "apart"}`);
    path.dataset.id = item.dataset.id;
    lines.append(path);
  }
}

function middle(item, frame) {
  const box = item.querySelector(".head").getBoundingClientRect();
  return box.top + box.height / 2 - frame.top;
}

function light(id) {
  for (const item of [...document.querySelectorAll(".hit"), ...lines.children]) {
    item.classList.toggle("lit", item.dataset.id === id);
  }
}

function clear() {
  forget();
  say("");
  at("start").hidden = false;
}

function forget() {
  shown = null;
  delete orders.dataset.question;
  orders.hidden = at("verdict").hidden = at("told").hidden = at("legend").hidden = true;
}

function say(text) {
  at("notice").textContent = text;
  at("notice").hidden = !text;
}

function reason(error) {
  return error instanceof Refused ? error.message : "The server cannot be reached; does it still run?";
}

function element(name, kind = "", text = "") {
  const node = document.createElement(name);
  if (kind) node.className = kind;
  if (text) node.textContent = text;
  return node;
}

const share = (value) => `${(value < 1 ? Math.min(Math.round(value * 1000) / 10, 99.9) : 100).toFixed(1)} %`;
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

// The search as a link: behind the #, which no browser sends to a server.

const FIELDS = { q: question, system, depth, top: top_k, passages, compare, least, filter };

function writeLink(pushes) {
  const values = new URLSearchParams();
  for (const [name, field] of Object.entries(FIELDS)) {
    const value = field.type === "checkbox" ? (field.checked ? "1" : "") : field.value;
    if (value.trim() && value !== usual()[name]) values.set(name, value);
  }
  const hash = question.value.trim() ? `#${values}` : "#";
  at("link").setAttribute("href", hash);
  if (hash !== location.hash && hash.length < 20000) history[pushes ? "pushState" : "replaceState"](null, "", hash);
}

// What a field has that a link does not name.
function usual() {
  const [first] = Object.keys(info.systems);
  return { q: "", system: first, depth: String(info.depth || 100), top: "10", passages: "", compare: "", least: String(info.min_percentile || 0), filter: "" };
}

function readLink() {
  const values = new URLSearchParams(location.hash.slice(1)), others = usual();
  for (const [name, field] of Object.entries(FIELDS)) {
    const value = values.has(name) ? values.get(name) : others[name];
    if (field.type === "checkbox") field.checked = value === "1";
    else field.value = value;
  }
  if (!system.value) system.selectedIndex = 0;
  at("filtered").open = filter.value !== "";
  at("more").open = filter.value !== "" || matchMedia("(min-width: 56.01rem)").matches; // folded on a phone
  grey();
  typed = performance.now();
  if (question.value.trim()) search(false);
}

// Keys and pointers.

function step(by) {
  const here = document.activeElement.closest(".hit");
  const items = [...(here ? here.parentElement : at("after")).querySelectorAll(".hit")];
  const next = items[here ? items.indexOf(here) + by : 0];
  if (next) next.focus();
  else if (here && by < 0) question.focus();
}

function across() {
  const here = document.activeElement.closest(".hit");
  if (!here) return;
  const other = at(at("after").contains(here) ? "before" : "after");
  const items = [...other.querySelectorAll(".hit")], row = [...here.parentElement.children].indexOf(here);
  const next = items.find((item) => item.dataset.id === here.dataset.id) || items[Math.min(row, items.length - 1)];
  if (next) next.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches("input, textarea, select"), onHit = event.target.matches(".hit");
  const acts = {
    "/": typing ? null : () => { question.focus(); question.select(); },
    ArrowDown: event.target === question || onHit ? () => step(1) : null,
    ArrowUp: onHit ? () => step(-1) : null,
    ArrowLeft: onHit ? across : null,
    ArrowRight: onHit ? across : null,
    Enter: onHit ? () => { const details = event.target.querySelector("details"); details.open = !details.open; } : null,
    Escape: event.target !== question && !event.target.matches("#token") ? () => question.focus() : null,
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
for (const kind of ["mouseover", "focusin"]) {
  orders.addEventListener(kind, (event) => { const item = event.target.closest(".hit"); light(item ? item.dataset.id : null); });
}
orders.addEventListener("mouseleave", () => light(null));
question.addEventListener("input", soon);
filter.addEventListener("input", soon);
for (const field of [depth, top_k, system, passages, compare]) field.addEventListener("change", () => { typed = performance.now(); grey(); search(false); });
least.addEventListener("input", () => { grey(); soon(); });
at("search").addEventListener("submit", (event) => { event.preventDefault(); search(true); });
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, at("token").value.trim());
  at("token").value = "";
  begin();
});
at("logout").addEventListener("click", () => { sessionStorage.removeItem(KEY); location.reload(); });
addEventListener("popstate", () => { if (info) { readLink(); if (!question.value) clear(); } });
new ResizeObserver(draw).observe(orders);
begin();

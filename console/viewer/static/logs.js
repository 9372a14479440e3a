// New log records of a run that is under way: a request carries the cursor, and its answer only what is after it.
const records = document.getElementById("records");
const INTERVAL_MS = 2000, ROWS_MAX = 2000;

if (records?.dataset.follow === "yes") setTimeout(follow, INTERVAL_MS);

async function follow() {
  if (!document.hidden) {
    const query = new URLSearchParams(location.search);
    query.set("cursor", records.dataset.cursor);
    try {
      const answer = await fetch(`${records.dataset.api}?${query}`);
      if (answer.ok) show(await answer.json());
    } catch {
      // The viewer ended, or the machine slept: the next request shows it.
    }
  }
  if (records.dataset.follow === "yes") setTimeout(follow, INTERVAL_MS);
}

function show(page) {
  const atEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 40;
  if (page.records.length) document.getElementById("no-record")?.remove();
  for (const one of page.records) records.append(row(one));
  while (records.rows.length > ROWS_MAX) records.deleteRow(0);
  records.dataset.cursor = page.cursor;
  if (!page.is_followed) records.dataset.follow = "no";
  if (atEnd && page.records.length) scrollTo(0, document.documentElement.scrollHeight);
}

function row(one) {
  const made = document.createElement("tr");
  if (/^\w+$/.test(one.level)) made.className = `log-${one.level}`;
  for (const text of [one.time.slice(11, 23), one.level, one.process]) made.insertCell().textContent = inert(text);
  const cell = made.insertCell();
  cell.className = "record";
  cell.dir = "auto";
  cell.textContent = inert(one.message.text);
  for (const [name, text] of [["code", one.data], ["pre", one.error.text]]) {
    if (!text) continue;
    const part = document.createElement(name);
    part.textContent = inert(text);
    cell.append(" ", part);
  }
  return made;
}

function inert(text) { // characters that act on a screen, as the pages print them
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e01ef}]/gu, "\ufffd");
}

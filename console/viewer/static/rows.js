// On a narrow screen a row of a wide table is a card: each cell needs the head of its column beside it.
export function label(root) {
  for (const table of root.querySelectorAll("table.rows:not(.heat-rows, .keys-table, .log, .replay-turns)")) {
    const heads = [...(table.tHead?.rows[0].cells ?? [])].map((one) => one.textContent.trim().replace(/ [↑↓]$/, ""));
    for (const row of [...table.tBodies].flatMap((one) => [...one.rows])) {
      if (row.cells.length === heads.length) [...row.cells].forEach((cell, at) => { cell.dataset.head = heads[at]; });
    }
    table.classList.add("cards");
  }
}

label(document);

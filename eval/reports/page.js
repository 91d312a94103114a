// A click on a heading sorts by it, another one turns the order round; what is empty stays last.
const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort ? head.ariaSort === "ascending" : head.classList.contains("number");
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      const filled = rows.filter(row => value(row, column) !== "");
      const compare = new Intl.Collator("en", {numeric: true}).compare;
      const numeric = filled.every(row => row.cells[column].dataset.value !== undefined);
      filled.sort((a, b) => {
        const [one, two] = [value(a, column), value(b, column)];
        return (down ? -1 : 1) * (numeric ? one - two : compare(one, two));
      });
      table.tBodies[0].append(...filled, ...rows.filter(row => value(row, column) === ""));
    });
  });
}

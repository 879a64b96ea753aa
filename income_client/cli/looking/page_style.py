"""How the page of an application looks, on light, dark and paper; knows no content."""

from typing import Final

STYLE_SHEET: Final = """
:root { color-scheme: light dark; --paper: #fdfdfc; --card: #ffffff; --ink: #1b1f24;
  --soft: #5c6570;
  --line: #dfe3e8; --track: #eef1f4; --alarm: #b3132b; --alarm-paper: #fdecee;
  --h0: #2b6cb0; --h1: #3a9d8f; --h2: #b7791f; --h3: #7b5ea7; --h4: #5a6b7b; --h5: #9aa83a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1b2026; --ink: #e8eaed;
  --soft: #9ba5b0; --line: #313840; --track: #262c33; --alarm: #ff8093; --alarm-paper: #3a1a20;
  --h0: #5fa3e6; --h1: #58c2b2; --h2: #dfa64a; --h3: #a98be0; --h4: #8fa2b4; --h5: #c3d160; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 2rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums lining-nums; overflow-wrap: anywhere; }
main { max-width: 58rem; margin: 0 auto; }
h1, h2, p, dl, dd, ul, ol { margin: 0; }
h1 { font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.01em; font-weight: 650; }
h2 { font-size: 1.2rem; line-height: 1.3; font-weight: 650; }
section { margin-top: 2rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
.over { font-size: 0.8rem; font-weight: 600; letter-spacing: 0.08em; text-transform: uppercase;
  color: var(--soft); }
.quiet { color: var(--soft); }
.small { font-size: 0.875rem; }
.meta { display: flex; flex-wrap: wrap; gap: 0.15rem 1.25rem; margin-top: 0.4rem;
  color: var(--soft); }
.note { display: inline-block; margin-top: 0.9rem; padding: 0.15rem 0.7rem; font-size: 0.875rem;
  border: 1px solid var(--line); border-radius: 1rem; color: var(--soft); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  gap: 1rem 1.5rem; margin-top: 1.75rem; }
.unit { margin-top: 0.75rem; }
.figures dt { font-size: 0.875rem; color: var(--soft); }
.figures dd { font-size: 1.5rem; line-height: 1.25; font-weight: 600; }
.alarm { color: var(--alarm); font-weight: 600; }
.alert { margin-top: 1.5rem; padding: 0.9rem 1.1rem; background: var(--alarm-paper);
  border: 1px solid var(--alarm); border-left-width: 5px; border-radius: 6px; }
.alert ul { padding-left: 1.2rem; }
.alert li + li { margin-top: 0.35rem; }
.name { font-weight: 400; margin-left: 0.5rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1.25rem;
  margin-top: 0.75rem; font-size: 0.9375rem; }
.facts dt { color: var(--soft); }
.key { display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin-top: 1rem; padding: 0;
  list-style: none; font-size: 0.875rem; }
.swatch { display: inline-block; width: 0.7em; height: 0.7em; margin-right: 0.45em;
  border-radius: 2px; }
.income { display: grid; gap: 0 2.5rem; margin-top: 1rem; }
.income.few { grid-template-columns: 17rem minmax(0, 1fr); }
.income.few .key { margin-top: 0; }
.income.few table { margin-top: 0; }
.income.few .column, .income.few .years span { width: 5.25rem; }
.columns { display: flex; align-items: flex-end; gap: clamp(2px, 1.5%, 1rem);
  margin-top: 0.75rem; border-bottom: 1px solid var(--line); }
.column { flex: 1 1 0; min-width: 0; max-width: 6rem; }
.top { text-align: center; font-size: 0.8125rem; white-space: nowrap; margin-bottom: 0.2rem; }
.stack { display: flex; flex-direction: column-reverse; gap: 1px; min-height: 2px; }
.part { min-height: 1px; }
.part:last-child { border-radius: 3px 3px 0 0; }
.years { display: flex; gap: clamp(2px, 1.5%, 1rem); margin-top: 0.3rem; }
.years span { flex: 1 1 0; min-width: 0; max-width: 6rem; text-align: center;
  font-size: 0.8125rem;
  color: var(--soft); }
.income.few .columns, .income.few .years { gap: 0.5rem; }
.many .mark { display: block; line-height: 1; }
.many .top, .many + .years span { font-size: 0.6875rem; letter-spacing: -0.02em; }
.h0 { background-color: var(--h0); } .h1 { background-color: var(--h1); }
.h2 { background-color: var(--h2); }
.h3 { background-color: var(--h3); } .h4 { background-color: var(--h4); }
.h5 { background-color: var(--h5); }
.doubt { background-image: repeating-linear-gradient(45deg, var(--alarm) 0 4px, transparent 4px
  9px);
  outline: 1.5px solid var(--alarm); outline-offset: -1.5px; }
.blank { background-color: var(--alarm-paper); }
table { width: 100%; margin-top: 1.25rem; border-collapse: collapse; font-size: 0.9375rem; }
th { padding: 0 0.75rem 0.3rem 0; text-align: left; font-size: 0.8125rem; font-weight: 600;
  color: var(--soft); vertical-align: bottom; }
td { padding: 0.35rem 0.75rem 0.35rem 0; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
tbody { border-top: 1px solid var(--line); }
.year { font-weight: 600; width: 3.5rem; white-space: nowrap; }
.source { min-width: 7.75rem; }
.amount { width: 8.5rem; text-align: right; white-space: nowrap; }
.none { margin-top: 1rem; color: var(--soft); }
.total { font-weight: 600; }
.chips { display: flex; flex-wrap: wrap; gap: 0.25rem 0.4rem; }
.chip { padding: 0 0.5rem; border: 1px solid var(--line); border-radius: 1rem; font-size: 0.8125rem;
  background: var(--card); color: inherit; text-decoration: none; }
.chip.alarm { color: var(--alarm); border-color: var(--alarm); background: var(--alarm-paper); }
.papers { margin: 1rem 0 0; padding: 0; list-style: none; }
.paper { display: grid; grid-template-columns: 13.5rem 1fr; gap: 0.2rem 1.5rem; padding: 0.6rem 0;
  border-top: 1px solid var(--line); }
.axis { position: relative; height: 1.25rem; margin: 1rem 0 -0.75rem 15rem; font-size: 0.75rem;
  color: var(--soft); overflow: hidden; }
.axis span { position: absolute; white-space: nowrap; padding-left: 0.3rem;
  border-left: 1px solid var(--line); }
.track { position: relative; height: 1.1rem; margin-top: 0.2rem; background: var(--track);
  border-radius: 3px; overflow: hidden; }
.span { position: absolute; top: 0.2rem; bottom: 0.2rem; min-width: 5px; border-radius: 2px;
  background-color: var(--h0); }
.span.hollow { background-color: transparent; border: 1.5px dashed var(--soft); }
.span.doubt { background-color: var(--alarm-paper); }
.payday { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--ink); }
.said { display: flex; flex-wrap: wrap; gap: 0 1.1rem; margin-top: 0.2rem; font-size: 0.875rem; }
.files { margin: 0.5rem 0 0; padding: 0; list-style: none; columns: 2 16rem; font-size: 0.875rem; }
.files li { break-inside: avoid; padding: 0.1rem 0; }
@media (max-width: 40rem) {
  .many .top, .many + .years span { font-size: 0.625rem; }
  body { padding-top: 1.25rem; }
  .paper { grid-template-columns: 1fr; }
  .axis { margin-left: 0; }
  .income.few { grid-template-columns: 1fr; }
  .income.few table { margin-top: 1.25rem; }
  thead { display: none; }
  tr { display: grid; grid-template-columns: 3.25rem minmax(0, 1fr) auto; padding: 0.15rem 0; }
  td { padding: 0.1rem 0 0.1rem 0.75rem; }
  td:first-child { padding-left: 0; }
  td:nth-child(4), .below { grid-column: 2 / 4; }
  .year { white-space: normal; }
  .figures > div:first-child { grid-column: 1 / -1; }
  .amount { width: auto; max-width: 55vw; white-space: normal; }
}
@media print {
  @page { size: A4; margin: 16mm 15mm; }
  :root { color-scheme: light; --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc;
    --track: #f0f0f0; --alarm: #b3132b; --alarm-paper: #fdecee; --h0: #2b6cb0; --h1: #3a9d8f;
    --h2: #b7791f; --h3: #7b5ea7; --h4: #5a6b7b; --h5: #9aa83a; }
  html { font-size: 13px; }
  body { padding: 0; font-size: 1rem; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
  .income.few { grid-template-columns: 13rem minmax(0, 1fr); gap: 0 1.5rem; }
  h2, .facts, .columns, .paper, tr, .alert { break-inside: avoid; }
  h2, .facts, .key, .columns { break-after: avoid; }
}
"""

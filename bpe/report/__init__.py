"""The report: one HTML page that shows what tokenizers do with texts, and a playground that serves the same page.

Takes tokenizers, texts and, if there is one, an evaluation; makes a page, as a file or for a browser on this machine.
The files, in the order in which data meets them:

- `tokenizers.py` tokenizers, of this package or another, as what the page needs of them;
- `page.py` `write_page`: counts the texts, makes the sections and puts them into the frame;
- `measures.py` the sections made from an evaluation: verdicts, metrics, bars by corpus;
- `panels.py` the same text in each tokenizer, in coloured tokens, and the details of those tokens;
- `vocabularies.py` lengths, scripts, rare and long tokens, differences;
- `charts.py` pictures as SVG, each with its numbers;
- `playground.py` the server of `bpe play`;
- `page.html`, `page.css`, `page.js` the frame, the style and the script.

Invariants: everything from outside is escaped, and a content security policy allows the page's own style and script
only; all of the page can be read without JavaScript; the playground listens on the loopback address unless the
network is allowed. Cost: encoding the texts once in each tokenizer, and some microseconds for each token drawn, of
which there are at most some 40,000, whatever the size of the texts.

Sources: the WAI-ARIA practices for listboxes (one stop of the Tab key for each box of tokens); Content Security Policy
Level 3 for hashes.
"""

from bpe.report.page import page_html, write_page
from bpe.report.playground import Playground

__all__ = ["Playground", "page_html", "write_page"]

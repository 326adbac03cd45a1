"""Takes pictures of a report, as PNG or, smaller, as WebP.

    python3 pictures.py REPORT OUT.png [--width N] [--height N] [--dark] [--part SELECTOR]
        [--call NAME] [--file NAME] [--pdf]

Without --part the whole page is taken; --height takes only so much of it. --call and --file choose
what the charts of one call or one file show.
"""

import argparse
import json

from browser import Browser

CHOOSE = """((selector, wanted) => {
    for (const select of document.querySelectorAll(selector)) {
        const found = [...select.options].find((option) => option.text.endsWith(wanted));
        if (found) { select.value = found.value; select.dispatchEvent(new Event("change")); }
    }
})(%s, %s)"""

parser = argparse.ArgumentParser()
parser.add_argument("report")
parser.add_argument("out")
parser.add_argument("--width", type=int, default=1440)
parser.add_argument("--height", type=int)
parser.add_argument("--dark", action="store_true")
parser.add_argument("--part")
parser.add_argument("--call")
parser.add_argument("--file")
parser.add_argument("--pdf", action="store_true")
options = parser.parse_args()

with Browser() as browser:
    browser.open(options.report, options.width, options.height or 900, options.dark)
    for word in ("call", "file"):
        wanted = getattr(options, word)
        if wanted:
            selector = f"select[aria-label={word}]"
            browser.evaluate(CHOOSE % (json.dumps(selector), json.dumps(wanted)))
    if options.pdf:
        browser.print(options.out)
    elif options.height and not options.part:
        browser.evaluate("document.documentElement.style.height = innerHeight + 'px'")
        browser.evaluate("document.documentElement.style.overflow = 'hidden'")
        browser.picture(options.out)
    else:
        browser.picture(options.out, options.part)
    for complaint in browser.complaints():
        print(complaint)

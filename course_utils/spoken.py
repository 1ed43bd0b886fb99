"""``spoken``: a column of widgets in which a screen reader is told what ipywidgets leaves unsaid."""

from collections.abc import Sequence
from html import escape

import ipywidgets as widgets

_BOX = "course-spoken"
_TOLD = "course-told"
# ipywidgets gives neither a slider nor a group of radio buttons a name, and of a list it tells the index.
# A group without a label of its own is named by the question above it. JupyterLab takes the arrow keys of a
# drop-down list to go from cell to cell. A style brings this in: a script that is set as HTML would not run.
_SCRIPT = f"""
const box = this.closest('.{_BOX}');
const tell = () => {{
    for (const slider of box.querySelectorAll('.widget-slider')) {{
        const [name, handle, value] = ['label', '[role=slider]', '.widget-readout'].map(
            (part) => slider.querySelector(part));
        handle.setAttribute('aria-label', name.textContent);
        handle.setAttribute('aria-valuetext', value.textContent);
        value.setAttribute('role', 'textbox');
        value.setAttribute('aria-label', name.textContent);
    }}
    for (const radios of box.querySelectorAll('.widget-radio-box')) {{
        const group = radios.closest('.widget-radio');
        const name = group.querySelector('.widget-label').textContent.trim();
        radios.setAttribute('role', 'radiogroup');
        radios.setAttribute('aria-label', name || group.previousElementSibling?.textContent.trim());
    }}
    for (const list of box.querySelectorAll('select')) list.setAttribute('data-lm-suppress-shortcuts', '');
    for (const told of box.querySelectorAll('.{_TOLD}')) told.setAttribute('role', 'status');
}};
new MutationObserver(tell).observe(box, {{childList: true, characterData: true, subtree: true}});
tell();
"""
_FOCUS = f".{_BOX} :focus-visible {{ outline: 2px solid #0072b2; outline-offset: 1px; }}"


def spoken(children: Sequence[widgets.Widget], told: widgets.HTML) -> widgets.VBox:
    """``children`` one under the other; what ``told``, which is among them, comes to show is read aloud.

    Radio buttons without a description bear the name of the child above them.
    """
    told.add_class(_TOLD)
    script = widgets.HTML(f'<style onload="{escape(_SCRIPT)}">{_FOCUS}</style>', layout={"display": "none"})
    box = widgets.VBox([*children, script])
    box.add_class(_BOX)
    return box

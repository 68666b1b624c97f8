"""The lab: watch networks become provable, in the browser or in a notebook."""

from wideproof.lab.serving import serve as serve

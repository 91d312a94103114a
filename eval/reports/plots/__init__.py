"""Plots as SVG: `to_svg`, and a module for each kind of drawing."""

from surprise_rerank.eval.reports.plots.svg import to_svg

__all__ = ["to_svg"]

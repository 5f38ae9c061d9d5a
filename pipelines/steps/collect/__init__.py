"""Collect: exports of annotation tools in; annotations, labels, conflicts and agreement out."""

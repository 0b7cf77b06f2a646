"""Manifests of formats 1 and 2 store of an input only column and scale, and no target; some no symmetries.

For the tasks of this package its schemas provide the rest.
"""

from __future__ import annotations

from dataclasses import replace

from hepdata.schema import SCHEMAS, ModelInput, Schema


def complete_schema(schema: Schema) -> Schema:
    """Add what such a manifest lacks; schemas of other tasks are returned unchanged."""
    known = SCHEMAS.get(schema.task)
    if known is None:
        return schema
    if schema.symmetries is None and known.symmetries is not None:
        absent = {column.name for column in known.columns if not schema.has_column(column.name)}
        schema = replace(schema, symmetries=known.symmetries.without(absent))
    if schema.target is not None:
        return schema
    columns = tuple(
        replace(
            column, period=known.column(column.name).period, n_classes=known.column(column.name).n_classes
        )
        if known.has_column(column.name)
        else column
        for column in schema.columns
    )
    whole = replace(schema, columns=columns, target=known.target)
    if known.target is not None and not whole.has_column(known.target.point_id):
        # Imported hits have no number in the source event, only their position in the imported file.
        whole = replace(whole, target=replace(known.target, point_id="index_in_source"))
    return replace(
        whole,
        features=tuple(ModelInput.of(whole.column(entry.column), entry.scale) for entry in schema.features),
        coordinates=tuple(
            ModelInput.of(whole.column(entry.column), entry.scale) for entry in schema.coordinates
        ),
    )

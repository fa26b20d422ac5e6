"""What PostgreSQL's catalogue tells about tables: columns, primary keys, replica identities, and types built of others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg2.extensions import connection as PostgresConnection

from ottla.cdc.column_types import DerivedType
from ottla.cdc.errors import CaptureError
from ottla.cdc.pgoutput import Column, Relation, ReplicaIdentity
from ottla.cdc.settings import TableName
from ottla.cdc.table import Table

# Generated columns are left out, as pgoutput leaves them out.
_COLUMNS: Final = """
    SELECT a.attname, a.atttypid, a.atttypmod FROM pg_attribute a
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY a.attnum
"""
_PRIMARY_KEY: Final = """
    SELECT a.attname FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indisprimary AND i.indrelid = %s
    ORDER BY array_position(i.indkey::int2[], a.attnum)
"""
_RELATION: Final = """
    SELECT c.oid, c.relreplident::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
_DERIVED_TYPES: Final = """
    SELECT oid, typbasetype, typtypmod, CASE WHEN typtype = 'd' THEN 0 ELSE typelem END FROM pg_type
    WHERE typtype = 'd' OR (typinput = 'array_in'::regproc AND typdelim = ',')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table as the catalogue has it now."""

    relation: Relation
    primary_key: tuple[str, ...]


class Catalog:
    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    @property
    def database(self) -> str:
        [(name,)] = self._rows("SELECT current_database()")
        return str(name)

    def setting(self, name: str) -> str:
        [(value,)] = self._rows("SELECT current_setting(%s)", name)
        return str(value)

    def find(self, name: TableName) -> FoundTable:
        rows = self._rows(_RELATION, *name)
        if not rows:
            raise CaptureError(f"there is no table {name} in the database {self.database}")
        [(oid, identity)] = rows
        columns = (
            Column(name=column, type_oid=type_oid, type_modifier=modifier)
            for column, type_oid, modifier in self._rows(_COLUMNS, oid)
        )
        relation = Relation(
            oid=oid,
            schema=name.schema,
            table=name.table,
            identity=ReplicaIdentity(identity),
            columns=tuple(columns),
        )
        return FoundTable(relation=relation, primary_key=self._primary_key(oid))

    def table(self, relation: Relation, *, prefix: str) -> Table:
        """Of a relation as the changes tell it, which may be older than what the catalogue has now."""
        primary_key = self._primary_key(relation.oid)
        names = {column.name for column in relation.columns}
        if not primary_key or not names.issuperset(primary_key):
            raise CaptureError(
                f"{relation.schema}.{relation.table} has changed its primary key ({', '.join(primary_key) or 'none'}) "
                "since the changes that are read now: `ottla cdc drop`, then run again for a new snapshot"
            )
        return Table.of(relation, prefix=prefix, primary_key=primary_key, derived=self._derived_types())

    def _primary_key(self, oid: int) -> tuple[str, ...]:
        return tuple(name for (name,) in self._rows(_PRIMARY_KEY, oid))

    def _derived_types(self) -> Mapping[int, DerivedType]:
        return {
            oid: DerivedType(base_oid=base_oid, base_modifier=modifier, element_oid=element_oid)
            for oid, base_oid, modifier, element_oid in self._rows(_DERIVED_TYPES)
        }

    def _rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetchall()

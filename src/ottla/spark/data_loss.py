"""Records that were to be read and are gone: an error, unless the query may go on without them (`failOnDataLoss`)."""

from ottla.spark.source_options import SourceOptions


class DataLost(Exception):
    """Offsets that were to be read are gone."""


def tell_lost(options: SourceOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLost(f"{what}: records that were to be read are gone. Set failOnDataLoss=false to go on without them")

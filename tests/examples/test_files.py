# test_files.py
# pip install pytest
from pathlib import Path

from income_client import IncomeClient
from income_client.testing import IncomeService, LoopRunner, cut_body


def test_a_cut_file_is_complete(
    income_service: IncomeService, income_api: IncomeClient, income_run: LoopRunner, tmp_path: Path
) -> None:
    documents = income_run(income_api.get_documents(income_service.ids[0]))
    income_service.faults.add(cut_body(call="file"))
    for file in income_run(income_api.download_all(documents, tmp_path)):
        content = Path(str(file.path)).read_bytes()
        assert content == income_service.content_of(file.document_id)
    assert 206 in [request.status for request in income_service.requests.of("file")]

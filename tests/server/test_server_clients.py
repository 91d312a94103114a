"""Programs that speak to Cohere, Jina and Text Embeddings Inference speak to the server."""

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from helpers.serving import Log, served, words_reranker

from surprise_rerank.connectors.server import ServerOptions, create_app

TOKEN = "a-long-random-one"
QUESTION = "why do dogs bark"
TEXTS = ["cats sleep all day", "dogs bark at night", "a wing gives lift"]
ORDER = [ranked.position for ranked in words_reranker().rank(QUESTION, TEXTS)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    options = ServerOptions(token=TOKEN, max_documents=10)
    with served(create_app(words_reranker(), options=options, logger=Log().logger())) as url:
        yield url


def test_coheres_clients_of_both_versions(url):
    cohere = pytest.importorskip("cohere")
    body = {"model": "rerank-v3.5", "query": QUESTION}
    answer = cohere.ClientV2(TOKEN, base_url=url).rerank(
        **body, documents=TEXTS, top_n=2, max_tokens_per_doc=4096
    )
    assert [result.index for result in answer.results] == ORDER[:2]
    assert answer.results[0].relevance_score > answer.results[1].relevance_score
    assert answer.meta.api_version.version == "2"
    assert answer.meta.billed_units.search_units == 1
    documents = [{"text": text, "title": "t"} for text in TEXTS]
    answer = cohere.Client(TOKEN, base_url=url).rerank(
        **body, documents=documents, rank_fields=["text"], return_documents=True, max_chunks_per_doc=10
    )
    assert [result.index for result in answer.results] == ORDER
    assert (answer.results[0].document.text, answer.results[0].document.title) == (TEXTS[1], "t")


def test_coheres_client_raises_its_own_errors(url):
    cohere = pytest.importorskip("cohere")
    for token, documents, error in (
        ("wrong", ["d"], cohere.UnauthorizedError),
        (TOKEN, ["d"] * 11, cohere.UnprocessableEntityError),
    ):
        with pytest.raises(error) as raised:
            cohere.ClientV2(token, base_url=url).rerank(model="m", query="q", documents=documents)
        assert raised.value.body["message"]


@pytest.mark.parametrize(
    ("provider", "path"),
    [("cohere", "/v1/rerank"), ("jina", "/v1/rerank"), ("text-embeddings-inference", "/rerank")],
)
def test_the_rerankers_packages_api_ranker(url, provider, path):
    rankers = pytest.importorskip("rerankers.models.api_rankers")
    ranker = rankers.APIRanker("any", TOKEN, provider, url=f"{url}{path}")
    ranked = ranker.rank(QUESTION, TEXTS, doc_ids=["x", "y", "z"])
    assert [result.doc_id for result in ranked.results] == ["xyz"[i] for i in ORDER]
    assert ranked.results[0].score > ranked.results[1].score


def test_langchains_init_reranker(url):
    module = pytest.importorskip("langchain_reranker.rerankers")
    from langchain_core.documents import Document

    documents = [Document(page_content=text) for text in TEXTS]
    reranker = module.init_reranker("custom:any", base_url=f"{url}/v1", api_key=TOKEN)
    assert [result.index for result in reranker.rerank(QUESTION, documents)] == ORDER


def test_llama_indexs_client_of_text_embeddings_inference(url):
    schema = pytest.importorskip("llama_index.core.schema")
    reranker = pytest.importorskip("llama_index.postprocessor.tei_rerank").TextEmbeddingInference
    nodes = [schema.NodeWithScore(node=schema.TextNode(text=text), score=0.5) for text in TEXTS]
    client = reranker(base_url=url, auth_token=f"Bearer {TOKEN}", top_n=2)
    ranked = client.postprocess_nodes(nodes, query_str=QUESTION)
    assert [node.text for node in ranked] == [TEXTS[i] for i in ORDER[:2]]


def test_haystacks_client_of_jina(url):
    rankers = pytest.importorskip("haystack_integrations.components.rankers.jina")
    from haystack import Document
    from haystack.utils import Secret

    documents = [Document(content=text) for text in TEXTS]
    client = rankers.JinaRanker(api_key=Secret.from_token(TOKEN), base_url=f"{url}/v1/rerank")
    ranked = client.run(QUESTION, documents)
    assert [document.content for document in ranked["documents"]] == [TEXTS[i] for i in ORDER]
    assert ranked["meta"]["model"] == "words"
    assert ranked["meta"]["usage"]["total_tokens"] > 0

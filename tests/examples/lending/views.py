# lending/views.py
# pip install django
import os

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from income_client import IncomeClientError, InvalidArgumentError, NotFoundError, to_json
from income_client.receivers import CallbackBasicAuth, CallbackReceiver, RequestHead

from .checkpoints import DjangoCheckpointStore
from .client import income

store = DjangoCheckpointStore()
service = CallbackBasicAuth(os.environ["CALLBACK_USER"], os.environ["CALLBACK_PASSWORD"])
receiver = CallbackReceiver(lambda _: store.ring("default"), auth=service)


def application(request: HttpRequest, application_id: str) -> HttpResponse:
    try:
        found = income.get_application(application_id)
    except (InvalidArgumentError, NotFoundError):
        raise Http404 from None
    except IncomeClientError as error:
        return HttpResponse(str(error), status=503 if error.retryable else 502)
    return HttpResponse(to_json(found), content_type="application/json")


@csrf_exempt
async def callback(request: HttpRequest) -> HttpResponse:
    head = RequestHead(method=request.method, headers=request.headers)
    answer = await receiver.answer(head, request.body)
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))


urlpatterns = [path("applications/<application_id>", application), path("callbacks", callback)]

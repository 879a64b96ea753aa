# django_views.py
# pip install django
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.urls import path

from income_client import NotFoundError, SyncIncomeClient, to_json

income = cache(SyncIncomeClient.from_env)  # made by the first request of each worker process


def application(request: HttpRequest, application_id: str) -> HttpResponse:
    try:
        found = income().get_application(application_id)
    except NotFoundError:
        return HttpResponse(status=404)
    return HttpResponse(to_json(found), content_type="application/json")


urlpatterns = [path("applications/<str:application_id>", application)]

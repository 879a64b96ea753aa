# lending/models.py
# pip install django 'psycopg[binary]'
from django.db import models


class Application(models.Model):
    application_id = models.TextField(primary_key=True)
    sequence = models.BigIntegerField()  # of the batch that has written the row
    updated_at = models.DateTimeField()
    content = models.JSONField()


class Place(models.Model):  # how far the rows have come, written together with them
    name = models.TextField(primary_key=True)
    checkpoint = models.TextField(default="")
    sequence = models.BigIntegerField(default=0)


class Poll(models.Model):  # what a checkpoint store keeps
    name = models.TextField(primary_key=True)
    checkpoint = models.TextField(default="")
    version = models.BigIntegerField(default=0)
    dead_letters = models.JSONField(default=dict)
    rings = models.BigIntegerField(default=0)
